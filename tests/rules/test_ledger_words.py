"""A run that is too short for rules says what its time went to."""

from __future__ import annotations

from rules.ledger_labels import LABELS, NO_WASTE
from rules.ledger_words import WORDS, describe_short_run


def test_a_short_run_says_what_took_a_twentieth_and_more_of_it() -> None:
    shares = {"effective": 0.4, "idle_tail": 0.14, "checkpoint": 0.33, "gap": 0.1, "hung": 0.03}
    assert describe_short_run(shares, 58.0) == (
        "The run spent 33 % in checkpoints, 14 % idle at the end; it is too short for the rest."
    )


def test_a_long_run_and_one_without_waste_say_nothing() -> None:
    assert describe_short_run({"checkpoint": 0.33}, 300.0) == ""
    assert describe_short_run({"effective": 0.96, "checkpoint": 0.04}, 58.0) == ""


def test_every_label_of_waste_has_words() -> None:
    assert WORDS.keys() == set(LABELS) - NO_WASTE
