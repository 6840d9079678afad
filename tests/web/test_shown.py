"""The writing of figures."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.template import Context, Template
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from trimtab.cli import reports

from advisor.comparison.rows import MEASURED
from advisor.money import MINUS, display_signed_usd, display_usd, display_usd_per_unit
from webapp.dashboard.selectors.sparkline import HEIGHT, WIDTH, sparkline
from webapp.templatetags import shown


@given(usd=st.decimals(-(10**6), 10**6, places=9))
def test_pages_and_commands_show_the_same_digits(usd: Decimal) -> None:
    assert reports.usd(f"{usd:f}") == display_usd(usd).replace(MINUS, "-")
    assert reports.usd(f"{usd:f}", signed=True) == display_signed_usd(usd).replace(MINUS, "-")
    assert reports.usd_per_unit(f"{usd:f}") == display_usd_per_unit(usd).replace(MINUS, "-")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.0031, "3.1 ms"),
        (0.31, "310 ms"),
        (1.25, "1.25 s"),
        (42.4, "42 s"),
        (59.7, "1 m 0 s"),
        (502, "8 m 22 s"),
        (3600, "1 h 0 m"),
        (90_061, "1 d 1 h"),
        (-502, "−8 m 22 s"),
    ],
)
def test_a_length_of_time_is_written_in_the_units_that_matter(value, text):
    assert shown.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        ("", "–"),
        (0, "0 %"),
        (0.001, "<1 %"),
        (0.005, "<1 %"),
        (0.006, "1 %"),
        (0.43, "43 %"),
        (-0.52, "−52 %"),
    ],
)
def test_a_share_that_is_there_is_never_nought(value, text):
    assert shown.share(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.18, "+18 %"), (-0.031, "−3 %"), (-0.004, "0 %")])
def test_a_change_that_rounds_to_nothing_has_no_sign(value, text):
    assert shown.signed_share(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (1020 * 1024, "1020 KiB"),
        (999.7 * 2**30, "1000 GiB"),
    ],
)
def test_bytes_are_written_in_powers_of_1024(value, text):
    assert shown.binary_bytes(value) == text


@given(st.floats(min_value=0, max_value=1e15))
def test_bytes_never_need_more_than_four_digits_and_a_unit(value):
    assert re.fullmatch(r"[\d.]{1,7} ([KMG]i)?B|[\d.]+ TiB", shown.binary_bytes(value))


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "no price"),
        ("0.0142", "+$0.0142"),
        ("-5.09", "−$5.09"),
        ("0", "$0.00"),
        ("1234.5", "+$1,234.50"),
    ],
)
def test_a_difference_of_money_carries_its_sign(amount, text):
    assert shown.signed_usd(None if amount is None else Decimal(amount)) == text


@pytest.mark.parametrize(
    ("price", "text"),
    [("0.085000000", "0.085"), ("14.688", "14.688"), ("3", "3.00"), ("100", "100.00")],
)
def test_a_price_is_written_without_noughts_that_say_nothing(price, text):
    assert shown.rate(price) == text


@pytest.mark.parametrize(
    ("passed", "text"),
    [(5, "just now"), (300, "5 min ago"), (7200, "2 h ago"), (5 * 86_400, "5 days ago")],
)
def test_a_moment_is_told_by_its_distance(passed, text):
    assert text in shown.ago(timezone.now() - timedelta(seconds=passed, milliseconds=100))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (True, "True"), (19_200.0, "19,200"), (0.12345, "0.1235"), ("adam", "adam")],
)
def test_a_quantity_is_written_shortly(value, text):
    assert shown.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.4, "0 s"), (-1.0, "−1 s"), (59.6, "+1 m 0 s"), (786.0, "+13 m 6 s")],
)
def test_a_difference_of_times_has_a_sign_and_whole_seconds(value, text):
    assert shown.signed_seconds(value) == text


def test_one_value_has_no_trend():
    assert sparkline([1.0]) is None


@given(st.lists(st.floats(min_value=0, max_value=1e9), min_size=2, max_size=50))
def test_a_trend_stays_inside_its_box_and_ends_at_its_last_value(values):
    drawn = sparkline(values)

    assert drawn is not None
    places = [tuple(map(float, pair.split(","))) for pair in drawn.points.split()]
    assert len(places) == len(values)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places)
    assert places[-1] == (drawn.end_x, drawn.end_y)
    assert [x for x, _ in places] == sorted(x for x, _ in places)


def test_a_higher_value_is_drawn_higher():
    drawn = sparkline([1.0, 2.0])

    first, last = (float(pair.split(",")[1]) for pair in drawn.points.split())
    assert last < first


def test_noise_is_drawn_as_noise_and_a_change_as_a_change():
    def height(values):
        ys = [float(pair.split(",")[1]) for pair in sparkline(values).points.split()]
        return (max(ys) - min(ys)) / HEIGHT

    assert height([1.0, 1.01, 0.99, 1.0]) < 0.1
    assert 0.3 < height([1.0, 1.0, 1.0, 1.2]) < 0.6
    assert height([2.0, 2.0]) == 0


def test_a_moment_long_ago_is_told_by_its_date():
    assert ">2020-05-17<" in shown.ago(datetime(2020, 5, 17, 8, tzinfo=UTC))


@pytest.mark.parametrize(
    ("gib", "text"), [(61.25, "61.25 GiB"), (999.7, "1,000 GiB"), (1200, "1,200 GiB")]
)
def test_compared_memory_is_never_a_power_of_ten(gib, text):
    assert dict(MEASURED)["memory_p99_bytes"].write(gib * 2**30) == text


@pytest.mark.parametrize(
    ("value", "pattern", "expected"),
    [
        (8, ", %s cores", ", 8 cores"),
        ("g5.xlarge", ": %s", ": g5.xlarge"),
        (True, ", EFA", ", EFA"),
        (None, ", %s cores", ""),
        ("", " on %s", ""),
        (0, "; %s skipped", ""),
        ("0", "; %s skipped", ""),
        (False, ", EFA", ""),
        (shown.NOTHING, ", %s each", ""),
    ],
)
def test_a_phrase_is_left_out_without_its_value(value: object, pattern: str, expected: str):
    assert shown.phrase(value, pattern) == expected


def test_a_phrase_escapes_its_value():
    page = Template('{% load shown %}{{ value|phrase:": %s" }}')
    assert page.render(Context({"value": "<b>"})) == ": &lt;b&gt;"


@pytest.mark.parametrize(
    ("text", "begun"),
    [
        ("no recording was found", "No recording was found"),
        ("broken.json is JSON", "broken.json is JSON"),
        ("runs/a holds nothing", "runs/a holds nothing"),
        ("refused. try again", "Refused. try again"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_letter_unless_with_a_name(text, begun):
    assert shown.sentence(text) == begun


@pytest.mark.parametrize(
    ("title", "within"),
    [("Idle GPU", "idle GPU"), ("GPU memory", "GPU memory"), ("Starved", "starved"), ("", "")],
)
def test_a_title_within_a_sentence_keeps_its_abbreviations(title, within):
    assert shown.inside(title) == within
