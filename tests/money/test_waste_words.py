"""A run that is too short for rules says so, and what its time went to."""

from __future__ import annotations

from decimal import Decimal

from advisor.waste_words import LedgerPart, describe_large_waste, describe_short_run
from rules.ledger_labels import LABELS, NO_WASTE
from rules.ledger_words import WORDS

PARTS = [
    LedgerPart("effective", 0.15, Decimal("0.15")),
    LedgerPart("hung", 0.03, Decimal("0.03")),
    LedgerPart("idle_tail", 0.11, Decimal("0.11")),
    LedgerPart("initialise", 0.71, Decimal("0.71")),
]


def test_a_short_run_says_what_took_a_twentieth_and_more_of_it_with_dollars() -> None:
    assert describe_short_run(PARTS, 59.0, judged=5, applicable=23) == (
        "Too short to judge: in 59 s, 5 of 23 rules had enough data. 71 % of it was start-up "
        "($0.7100), 11 % idle time at the end ($0.1100)."
    )


def test_a_run_of_some_milliseconds_never_took_no_time() -> None:
    said = describe_short_run(PARTS, 0.18, judged=5, applicable=23)
    assert said.startswith("Too short to judge: in less than 1 s, 5 of 23 rules")


def test_without_a_price_it_says_the_shares() -> None:
    unpriced = [LedgerPart("initialise", 0.71), LedgerPart("effective", 0.29)]
    assert describe_short_run(unpriced, 59.0, judged=5, applicable=23) == (
        "Too short to judge: in 59 s, 5 of 23 rules had enough data. 71 % of it was start-up."
    )


def test_a_short_run_without_waste_is_too_short_all_the_same() -> None:
    assert describe_short_run([LedgerPart("effective", 1.0)], 59.0, judged=5, applicable=23) == (
        "Too short to judge: in 59 s, 5 of 23 rules had enough data."
    )


def test_a_long_run_and_one_that_most_rules_judged_say_nothing() -> None:
    assert describe_short_run(PARTS, 300.0, judged=5, applicable=23) == ""
    assert describe_short_run(PARTS, 59.0, judged=12, applicable=23) == ""


def test_large_waste_is_told_with_its_largest_part() -> None:
    assert describe_large_waste(PARTS) == (
        "$0.8500, 85 % of its cost, was waste, most of it start-up"
    )
    assert describe_large_waste([LedgerPart("hung", 0.5), LedgerPart("effective", 0.5)]) == (
        "50 % of its time was waste, most of it hanging"
    )
    assert describe_large_waste([LedgerPart("hung", 0.19), LedgerPart("effective", 0.81)]) == ""


def test_every_label_of_waste_has_words() -> None:
    assert WORDS.keys() == set(LABELS) - NO_WASTE
