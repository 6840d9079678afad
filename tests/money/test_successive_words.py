"""The words of a verdict."""

from __future__ import annotations

import pytest

from advisor.successive.history import judge_runs
from advisor.successive.judged_run import (
    BETTER,
    CLEARED,
    CONFIRMED,
    LEVEL,
    OK,
    OPEN,
    SAME,
    SUSPECTED,
    WORSE,
    JudgedRun,
    Observation,
    Regression,
)
from advisor.successive.machines import MachineEffect
from advisor.successive.noise import Noise, Prior
from advisor.successive.wording import effect_words, noise_words, runs_called, sentence

TAIL = (
    "+12.3 % machine time per epoch compared with 4 runs (#1 to #4). "
    "The smallest detectable change is 5 %."
)


def told(status: str, direction: str, **more) -> str:  # type: ignore[no-untyped-def]
    figures = {"change": 0.123, "detects": 0.054, "baseline": (1, 2, 3, 4)} | more
    return sentence(JudgedRun(9, LEVEL, status, direction, **figures), "epoch")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0], "First run of this workload in this configuration: recorded as the baseline."),
        (
            [1.0, 1.2],
            "+20.0 % machine time per epoch compared with run #1: "
            "too few runs to tell a change from noise.",
        ),
        (
            [1.0, 1.0, 0.9],
            "−10.0 % machine time per epoch compared with 2 runs (#1 to #2): "
            "too few runs to tell a change from noise.",
        ),
    ],
)
def test_it_says_how_sure_it_is(values, words):
    runs = [Observation(n, value) for n, value in enumerate(values, start=1)]
    assert sentence(judge_runs(runs).judged_runs[-1], "epoch") == words


@pytest.mark.parametrize(
    ("status", "direction", "more", "words"),
    [
        (SUSPECTED, WORSE, {}, "Suspected regression, to be confirmed by the next run: "),
        (SUSPECTED, BETTER, {}, "Suspected improvement, to be confirmed by the next run: "),
        (
            SUSPECTED,
            BETTER,
            {"is_back": True},
            "Suspected end of the regression, to be confirmed by the next run: ",
        ),
        (CONFIRMED, WORSE, {"since": 7}, "Confirmed regression since run #7: "),
        (
            CONFIRMED,
            WORSE,
            {"since": 7, "is_gradual": True},
            "Confirmed regression since run #7, gradually: ",
        ),
        (
            OPEN,
            WORSE,
            {"regression": Regression(7, 0.1, (1, 2))},
            "Regression open since run #7: ",
        ),
        (CLEARED, WORSE, {}, "Outlier, not confirmed by the next run: "),
        (OK, SAME, {}, "As expected: "),
    ],
)
def test_it_says_what_became_of_a_suspicion(status, direction, more, words):
    assert told(status, direction, **more) == words + TAIL


def test_it_says_what_ended_and_what_else_may_explain_it():
    ended = told(CONFIRMED, BETTER, since=8, ended=Regression(5, 0.2, (1, 2)))
    assert " The regression since run #5 is over." in ended
    unknown = told(SUSPECTED, WORSE, new_machine="box-9")
    assert "No run before was on box-9, which may explain the difference." in unknown


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((3,), "run #3"),
        ((1, 2, 3), "3 runs (#1 to #3)"),
        ((3, 1, 2, 7), "4 runs (#1 to #3, #7)"),
        ((1, 3, 5, 7), "4 runs (#1 to #7)"),
    ],
)
def test_runs_are_called_by_their_numbers(numbers, words):
    assert runs_called(numbers) == words


@pytest.mark.parametrize(
    ("freedom", "jobs", "words"),
    [
        (30, 0, "Run-to-run variation: 2.5 %, from 31 runs of this job."),
        (3, 0, "Run-to-run variation: 2.5 %, from 4 runs of this job and the usual 2.0 %."),
        (
            3,
            5,
            "Run-to-run variation: 2.5 %, from 4 runs of this job and 5 other jobs of this "
            "workspace.",
        ),
        (0, 0, "Run-to-run variation: 2.5 %, from the usual 2.0 %."),
    ],
)
def test_it_says_where_the_variation_is_known_from(freedom, jobs, words):
    assert noise_words(Noise(0.025, freedom), Prior(jobs=jobs)) == words


def test_a_machine_is_told_with_its_interval():
    assert effect_words(MachineEffect("box-9", 0.09, 0.06, 0.12, 5, 20)) == (
        "Runs on box-9 take 9 % longer (6 % to 12 %): 5 runs against 20 on other machines. "
        "This is not counted as a change of the job."
    )
