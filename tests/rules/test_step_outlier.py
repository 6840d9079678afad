"""`step_outlier`: the steps that take too long, beyond what chance gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rules.frame import NodeFrame, RunFrame
from rules.registry import all_rules
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "step_outlier"


def loop(
    count: int = 600,
    outliers: int = 0,
    factor: float = 3.0,
    noise: float = 0.03,
    first: float = 1.0,
    rank: int = 0,
    phase: str = "train",
) -> pd.DataFrame:
    """Return noisy steps of a second, some of them `factor` times as long."""
    random = np.random.default_rng(count + outliers)
    durations = np.clip(random.normal(1, noise, count), 0.5, 1 + 2.9 * noise)
    durations[random.choice(np.arange(1, count), outliers, replace=False)] = factor
    durations[0] = first
    table = f.steps(count, rank=rank, phase=phase)
    starts = np.concatenate([[0], np.cumsum(durations[:-1])])
    return table.assign(duration_seconds=durations, start_seconds=starts)


def run(*tables: pd.DataFrame) -> RunFrame:
    return f.run(f.node(step_tables=list(tables)), duration=2000)


def waited(table: pd.DataFrame, seconds: float = 2.0) -> pd.DataFrame:
    """Return the steps with outliers that waited that long for data."""
    waits = np.where(table["duration_seconds"] > 1.5, seconds, 0.01)
    return table.assign(data_wait_seconds=waits)


def recorded(phase: str) -> RunFrame:
    """Return a run with 20 outliers, each of which contains a phase of two seconds."""
    table = loop(outliers=20)
    slow = table[table["duration_seconds"] > 1.5]
    events = [
        (start + offset, kind, {"phase": phase, "rank": 0})
        for start in slow["start_seconds"]
        for offset, kind in ((0.5, "phase_begin"), (2.5, "phase_end"))
    ]
    return f.run(f.node(step_tables=[table], events=events), duration=2000)


def summed(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(count=60, duration_seconds=1 / 60)


LONG = 20_000
CHANCE = loop(LONG, noise=0.1).assign(
    duration_seconds=np.random.default_rng(3).normal(1, 0.1, LONG)
)
BEAT = loop().assign(duration_seconds=np.where(np.arange(600) % 20 == 0, 2.0, 1.0))


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(loop(outliers=20)), "fired", id="twenty outliers"),
        pytest.param(run(loop(outliers=11)), "fired", id="eleven"),
        pytest.param(run(loop(outliers=10)), "passed", id="ten, not more"),
        pytest.param(run(loop()), "passed", id="none"),
        pytest.param(run(loop(outliers=20, factor=1.09, noise=0.005)), "passed", id="9 % longer"),
        pytest.param(run(loop(first=500.0)), "passed", id="the first step is warm-up"),
        pytest.param(run(loop(outliers=29)), "fired", id="29 of 600"),
        pytest.param(run(loop(outliers=31)), "passed", id="31 of 600 are a second mode"),
        pytest.param(run(loop(outliers=30, count=150)), "passed", id="a fifth is a second mode"),
        pytest.param(run(waited(loop(outliers=20))), "passed", id="all of them are waits for data"),
        pytest.param(run(waited(loop(outliers=20), 0.5)), "fired", id="partly waits for data"),
        pytest.param(recorded("checkpoint"), "passed", id="all of them are checkpoints"),
        pytest.param(recorded("evaluate"), "passed", id="all of them are evaluations"),
        pytest.param(recorded("communication"), "fired", id="another phase"),
        pytest.param(run(CHANCE), "passed", id="20,000 steps of noise"),
        pytest.param(run(BEAT), "passed", id="at a beat"),
        pytest.param(run(loop(count=101, outliers=5)), "insufficient_data", id="100 steps"),
        pytest.param(run(loop(count=102, outliers=5)), "passed", id="101 steps, few outliers"),
        pytest.param(run(summed(loop(outliers=20))), "insufficient_data", id="summed up"),
        pytest.param(run(loop(), loop(outliers=20, rank=1)), "fired", id="one of two ranks"),
        pytest.param(run(loop(), loop(outliers=20, phase="evaluate")), "fired", id="evaluation"),
        pytest.param(f.run(f.node()), "insufficient_data", id="no steps"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_a_small_but_regular_excess_fires_only_below_the_materiality_floor() -> None:
    frame = run(loop(outliers=20, factor=1.11, noise=0.005))
    assert judged(RULE, frame).verdict.state == "passed"
    assert judged(RULE, frame, {"least_waste_pct": 0}).verdict.state == "fired"


def test_a_few_steps_more_than_needed_can_be_judged() -> None:
    few = {"n_outliers": 3}
    enough, lacking = (run(loop(count=count, outliers=5, factor=9.0)) for count in (102, 101))
    assert judged(RULE, enough, few).verdict.state == "fired"
    assert judged(RULE, lacking, few).verdict.state == "insufficient_data"


def test_a_second_mode_is_named() -> None:
    verdict = judged(RULE, run(loop(outliers=60))).verdict
    assert "10.0 % of one rank's 599 steps" in verdict.summary
    assert "second mode" in verdict.summary


def lasting(durations: np.ndarray) -> RunFrame:
    starts = np.concatenate([[0], np.cumsum(durations[:-1])])
    table = f.steps(len(durations)).assign(duration_seconds=durations, start_seconds=starts)
    return f.run(f.node(step_tables=[table]), duration=float(durations.sum()) + 20)


SKEWED = {
    "lognormal 0.3": lambda random, count: random.lognormal(0, 0.3, count),
    "lognormal 0.8": lambda random, count: random.lognormal(0, 0.8, count),
    "gamma 2": lambda random, count: random.gamma(2, 0.5, count),
    "gamma 9": lambda random, count: random.gamma(9, 0.1, count),
    "exponential on a base": lambda random, count: 1 + random.exponential(0.3, count),
    "Pareto": lambda random, count: 1 + random.pareto(3, count),
    "Student's t": lambda random, count: np.clip(1 + 0.05 * random.standard_t(3, count), 0.2, None),
}


@pytest.mark.parametrize("kind", SKEWED)
@pytest.mark.parametrize("count", [300, 2_000, 20_000])
def test_skewed_steps_have_no_outliers_in_runs_of_any_length(kind: str, count: int) -> None:
    random = np.random.default_rng([count, *kind.encode()])
    frames = [lasting(SKEWED[kind](random, count)) for _ in range(5)]
    assert [judged(RULE, frame).verdict.state for frame in frames] == ["passed"] * 5


@pytest.mark.parametrize("kind", ["lognormal 0.3", "gamma 9", "exponential on a base"])
@pytest.mark.parametrize("count", [1_000, 20_000])
def test_outliers_among_skewed_steps_are_found_in_runs_of_any_length(kind: str, count: int) -> None:
    random = np.random.default_rng([count, *kind.encode()])
    for _ in range(5):
        durations = SKEWED[kind](random, count)
        durations[random.choice(count, count // 50, replace=False)] *= 8
        assert judged(RULE, lasting(durations)).verdict.state == "fired"


def test_the_waste_is_what_the_outliers_took_more_than_the_median() -> None:
    judgement = judged(RULE, run(loop(outliers=20, noise=0.001)))
    assert judgement.verdict.claimed_seconds_high == pytest.approx(40, rel=0.01)
    assert judgement.verdict.claimed_seconds_low == pytest.approx(20, rel=0.01)
    assert sum(w.end_seconds - w.start_seconds for w in judgement.numbers.windows) >= 60


def test_the_mode_chooses_the_phase() -> None:
    frame = run(loop(), loop(outliers=20, phase="evaluate"))
    parse = all_rules()[RULE].parameters
    mode = next(p for p in parse if p.name == "mode")
    assert judged(RULE, frame, {"mode": mode.parse("TRAIN")}).verdict.state == "passed"
    assert judged(RULE, frame, {"mode": mode.parse("eval")}).verdict.state == "fired"


def test_it_counts_one_rank_and_not_all_of_them_together() -> None:
    nodes: list[NodeFrame] = [
        f.node(f"n{n}", step_tables=[loop(outliers=6, count=400 + n)]) for n in range(4)
    ]
    assert judged(RULE, f.run(*nodes)).verdict.state == "passed"


def test_a_running_run_is_judged_alike() -> None:
    live = replace(run(loop(outliers=20)), final=False)
    assert judged(RULE, live).verdict == judged(RULE, run(loop(outliers=20))).verdict


def launched(random: np.random.Generator, period: int, epoch: int) -> np.ndarray:
    """Return 2,000 steps of 54 ms on a GPU whose queue holds some launches, and a synchronisation
    every `period` steps of an epoch; each step's time is that of its launches.
    """
    work = random.normal(0.0544, 0.0002, 2000)
    queue, launch = random.uniform(0.5, 30.0), random.uniform(0.1, 0.9)
    host, gpu, ends = 0.0, 0.0, []
    for number, seconds in enumerate(work):
        host = max(host + launch * 0.0544, gpu - queue * 0.0544)
        gpu = max(gpu, host) + seconds
        if (number % epoch + 1) % period == 0:
            host = gpu
        ends.append(host)
    return np.diff(ends)


@pytest.mark.parametrize("epoch", [130, 2000])
@pytest.mark.parametrize("period", [10, 20, 25, 50, 100])
def test_launches_that_a_synchronisation_gathers_are_no_outliers(period: int, epoch: int) -> None:
    for seed in range(10):
        durations = launched(np.random.default_rng([seed, period, epoch]), period, epoch)
        assert judged(RULE, lasting(durations)).verdict.state == "passed"


def periods(count: int, outliers: int, seeds: int) -> list[float]:
    """Return the period that is found among outliers at random places, for each seed."""
    found = []
    for seed in range(seeds):
        random = np.random.default_rng([seed, count, outliers])
        durations = 1 + random.uniform(-0.02, 0.02, count)
        durations[1 + random.choice(count - 1, outliers, replace=False)] = 3.0
        found.append(measured(durations)["period_steps"])
    return found


def measured(durations: np.ndarray) -> dict[str, float | None]:
    rule = all_rules()[RULE]
    return dict(rule.measure(lasting(durations), rule.values()).values)


@pytest.mark.parametrize(("count", "outliers"), [(330, 8), (130, 5), (400, 14), (200, 10)])
def test_random_outliers_have_no_period(count: int, outliers: int) -> None:
    assert sum(each != 1 for each in periods(count, outliers, 250)) <= 2


@pytest.mark.parametrize(
    ("period", "count", "more"), [(41, 400, 2), (20, 160, 2), (25, 1000, 12), (10, 200, 5)]
)
def test_a_period_is_found_if_most_outliers_lie_on_it(period: int, count: int, more: int) -> None:
    for seed in range(20):
        random = np.random.default_rng([seed, period])
        durations = 1 + random.uniform(-0.02, 0.02, count + 1)
        durations[period::period] = 3.0
        durations[1 + random.choice(count, more, replace=False)] = 3.0
        assert measured(durations)["period_steps"] == period


def test_two_pairs_at_one_distance_are_no_period() -> None:
    durations = np.ones(400)
    durations[[20, 61, 90, 113, 188, 229, 300, 371]] = 3.0
    numbers = measured(durations)
    assert (numbers["period_steps"], numbers["outliers_count"]) == (1, 8)


@pytest.mark.parametrize("period", [20, 25])
def test_outliers_between_synchronisations_are_found_with_what_they_cost(period: int) -> None:
    random = np.random.default_rng(period)
    durations = launched(random, period, 2000)
    durations[random.choice(np.arange(100, 1900), 18, replace=False)] += 3.0
    judgement = judged(RULE, lasting(durations))
    assert judgement.verdict.state == "fired", judgement.verdict.summary
    assert judgement.verdict.claimed_seconds_high == pytest.approx(54, rel=0.03)


def set_up(world: World, factor: float) -> None:
    """Make more than 10 steps outliers, 4 to 5 times as long as the others, or more than 1 % of the
    run.
    """
    fewest = np.ceil(10 * factor) if factor > 1 else np.floor(10 * factor)
    longest = max(0.01 * world.seconds / (3 * world.step_seconds) * factor, 0.0)
    count = int(max(fewest, longest) if factor > 1 else fewest)

    def change(node: Node) -> None:
        rows = world.random.choice(np.arange(5, len(node.steps)), count, replace=False)
        times = world.random.uniform(4.0, 5.0, count)
        durations = node.steps["duration_seconds"].to_numpy(copy=True)
        durations[rows] *= times
        starts = node.steps["start_seconds"].iloc[0] + np.concatenate(
            [[0.0], np.cumsum(durations[:-1])]
        )
        node.steps = node.steps.assign(duration_seconds=durations, start_seconds=starts)

    world.pauses.clear()
    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.SIMPLE, *confounders.DATA))


def test_it_says_how_busy_the_machine_was_during_outliers() -> None:
    table = loop(outliers=20)
    ticks = np.arange(700.0)
    slow = table[table["duration_seconds"] > 1.5]
    ends = slow["start_seconds"] + slow["duration_seconds"]
    spans = list(zip(slow["start_seconds"], ends, strict=True))
    inside = np.array([any(low <= at < high for low, high in spans) for at in ticks])
    busy = np.where(inside, 5.0, 80.0)
    series = f.samples(
        700, gpu0__busy_pct=busy, host__cpu_busy_pct=30.0, host__cpu_iowait_pct=0.5 * (85 - busy)
    )
    frame = f.run(f.node(series=series, step_tables=[table], of=f.hardware(gpus=1)), duration=700)
    verdict = judged(RULE, frame).verdict
    assert verdict.state == "fired"
    words = "GPUs 5 % (otherwise 80 %), cores 30 % (otherwise 30 %), I/O wait 40 % (otherwise 2 %)"
    assert verdict.advice.endswith(f" During them: {words}.")
    assert " During them" not in judged(RULE, run(table)).verdict.advice
