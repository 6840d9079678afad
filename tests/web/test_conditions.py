"""The grammar of filters: what is written is read again, and nothing breaks it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.runs.conditions import FilterError, parse_conditions, quote_name, quote_value
from webapp.runs.run_values import to_value

KEYS = st.text(st.characters(exclude_characters="`\0"), min_size=1, max_size=30)
VALUES = st.text(min_size=1, max_size=30).filter(lambda text: not ("'" in text and '"' in text))
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "LIKE"])


@given(st.lists(st.tuples(KEYS, OPERATORS, VALUES), min_size=1, max_size=5))
def test_what_the_form_writes_is_read_as_it_was_meant(written):
    text = " and ".join(f"param.{quote_name(k)} {op} {quote_value(v)}" for k, op, v in written)

    read = [(each.key, each.op, each.words[0]) for each in parse_conditions(text)]

    assert read == written


FRAGMENTS = st.from_regex(r"(lr|`a b`) ?(=|<|in|is) ?(1|'x'|\(1,2\)|null)( and)?")


@given(st.text(max_size=60) | FRAGMENTS)
def test_any_text_is_read_or_refused_at_a_place_within_it(text):
    places = [0]
    try:
        assert bool(parse_conditions(text)) == bool(text.strip())
    except FilterError as error:
        places.append(error.place)
    assert 0 <= places[-1] <= len(text)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**15), 10**15))
def test_numbers_are_found_as_numbers_however_they_are_sent(number):
    assert to_value(number).number == to_value(str(number)).number == number


@pytest.mark.parametrize(
    "text", ["", "nan", "inf", "-Infinity", "1_000", "0x10", "1e999", "٣", " 1"]
)
def test_other_texts_are_no_numbers(text):
    assert to_value(text) == (None, text)
