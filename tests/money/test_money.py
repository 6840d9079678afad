"""Amounts are rounded, written in a row, read from text, and split."""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.money import NANO_USD, from_nano_usd, parse_usd, plain_usd, rounded_usd, split_usd
from webapp.database.money import UsdField

ROOT = Path(__file__).parents[2]
MOST_USD = Decimal(10**6)
decimals = st.decimals(-(10**6), 10**6, places=14)
fractions = st.fractions(-(10**6), 10**6, max_denominator=10**12)


def _nearest(usd: Fraction) -> Decimal:
    """Round by the text of the rule: cut off the digits, then add one where a half or more is
    left.
    """
    size = Decimal(abs(usd) * 10**9 // 1).scaleb(-9)
    if abs(usd) - Fraction(size) >= Fraction(NANO_USD) / 2:
        size += NANO_USD
    return size if usd >= 0 else -size


@given(decimals | fractions)
def test_an_amount_becomes_the_nearest_nano_dollar_and_a_half_goes_away_from_zero(usd):
    assert rounded_usd(usd) == _nearest(Fraction(usd))


@pytest.mark.parametrize(
    ("usd", "rounded"),
    [
        ("0.0000000005", "0.000000001"),
        ("0.0000000015", "0.000000002"),
        ("0.0000000025", "0.000000003"),
        ("-0.0000000005", "-0.000000001"),
        ("0.00000000049999", "0"),
        ("14.688", "14.688"),
    ],
)
def test_a_row_keeps_what_the_rule_says(usd, rounded):
    """The same tie in a calculation and in the database, whichever kind of number it comes as."""
    exact, field = Decimal(usd), UsdField()
    written = field.from_db_value(field.get_prep_value(exact))
    assert written == rounded_usd(exact) == rounded_usd(Fraction(usd)) == Decimal(rounded)


@given(st.integers(-(10**18), 10**18))
def test_whole_nano_dollars_pass_through_a_row_unchanged(nano_usd):
    field = UsdField()
    assert field.get_prep_value(field.from_db_value(nano_usd)) == nano_usd


@given(decimals, st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**6)))
def test_parts_sum_to_the_rounded_whole_exactly(total, weights):
    parts = split_usd(total, weights)
    if any(weights.values()):
        assert sum(parts.values()) == rounded_usd(total)
        assert parts.keys() == weights.keys()
    else:
        assert parts == {}


@given(st.integers(0, 10**15))
def test_an_amount_that_was_written_is_read_back(nano_usd):
    usd = from_nano_usd(nano_usd)
    assert parse_usd(plain_usd(usd), MOST_USD) == parse_usd(f"${usd:f}", MOST_USD) == usd


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "write it as 1.25"),
        ("1,25", "write it as 1.25"),
        ("nan", "between 0 and 1,000,000"),
        ("Infinity", "between 0 and 1,000,000"),
        ("-1", "between 0 and 1,000,000"),
        ("1000000.01", "between 0 and 1,000,000"),
        ("0.1234567891", "more than nine decimals"),
        ("1e-999999", "more than nine decimals"),
    ],
)
def test_text_that_is_no_amount_is_refused_with_what_it_should_be(text, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_usd(text, MOST_USD)


@given(st.decimals(0, 10**6, allow_nan=False))
def test_what_is_read_has_no_digit_more_than_a_row_keeps(usd):
    try:
        amount = parse_usd(str(usd), MOST_USD)
    except ValueError:
        assert usd != usd.quantize(NANO_USD, ROUND_DOWN)
    else:
        assert UsdField().from_db_value(UsdField().get_prep_value(amount)) == amount == usd


def test_no_other_module_rounds_money_in_its_own_way():
    own = re.compile(r"scaleb\(-9\)|Decimal\(\"1e-9\"\)|ROUND_[A-Z]|quantize\(")
    modules = [*(ROOT / "advisor").rglob("*.py"), *(ROOT / "webapp").rglob("*.py")]
    rounding = {
        str(path.relative_to(ROOT)) for path in modules if own.search(path.read_text("utf-8"))
    }
    assert rounding <= {"advisor/money.py", "advisor/pricing/providers/aws/sagemaker.py"}
