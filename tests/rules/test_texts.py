"""The texts of verdicts: one thing is no plural, equal ends are no range, advice fits the
machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from rules.engine import evaluate
from rules.frame import RunFrame
from rules.wording import lasting, name_gpus, range_pct, some_gpus, write_count
from tests.rules import endings
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario, labelled
from tests.rules.scenarios.registry import SCENARIOS
from tests.rules.scenarios.world import Pause, World

THINGS = (
    "bursts|checkpoints|cores|evaluations|failures|gaps|GPUs|loaders|nodes|outliers|points|ranks|"
    "samples|steps|stretches|times|values|workers"
)
FAULTS = {
    "a plural for one": re.compile(rf"(?<![\d.,])1 (?:\w+[- ])?(?:{THINGS})\b"),
    "a range with equal ends": re.compile(r"(?<![\d.])([\d.]+) to \1 "),
    "a singular for several": re.compile(
        rf"(?<![\d.,])(?:[02-9]|[1-9]\d+) (?:{'|'.join(w[:-1] for w in THINGS.split('|'))})\b"
        r"(?! \w+s\b)"
    ),
    "not a number": re.compile(r"\b(?:nan|inf|None(?! of))\b"),
    "spaces": re.compile(r"  |\.\.| \."),
}


def small(scenario: Scenario) -> Scenario:
    """Return the same on a machine with one GPU and two cores."""

    def set_up(world: World, factor: float) -> None:
        world.gpus, world.nodes, world.vcpus = 1, 1, 2
        scenario.set_up(world, factor)

    return replace(scenario, set_up=set_up)


def once(kind: str) -> Scenario:
    """Make one long pause in a run of one epoch."""

    def set_up(world: World, factor: float) -> None:
        world.nodes, world.gpus, world.epochs = 1, 1, 1
        world.pauses.append(Pause(kind, 0.3 * world.seconds))

    return Scenario("evaluation_share", set_up, (confounders.slow_start,))


def unusual() -> Iterator[RunFrame]:
    """Runs in which there is one of something, or nothing at all."""
    yield f.run()
    for gpus in (1, 2):
        for seconds in (30, 600):
            busy = {f"gpu{number}__busy_pct": 0.0 for number in range(gpus)}
            series = f.samples(seconds, host__cpu_busy_pct=98.0, **busy)
            yield f.run(f.node(series=series, of=f.hardware(gpus=gpus)), duration=600)
            yield f.run(f.node(of=f.hardware(gpus=gpus)), duration=600)
    for count in (1, 2, 40):
        events = [(1.0, "loader", {"workers": 1, "rank": 0})]
        table = f.steps(count, duration=10.0, wait=0.4)
        yield f.run(f.node(step_tables=[table], events=events, of=f.hardware(vcpus=1)))
    ended = endings.ends(3000, "failed", 1)
    yield endings.run(ended, seconds=3000)
    yield endings.run([*endings.saved(100), *ended], seconds=3000)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.rule_id)
def test_the_verdicts_of_all_rules_read_well(scenario: Scenario) -> None:
    needs_two = scenario.rule_id == "load_balancing"
    for variant in (scenario, *([] if needs_two else [small(scenario)])):
        for run in labelled(variant, 4, 1):
            assert_reads_well(run.frame)


@pytest.mark.parametrize("kind", ["evaluate", "checkpoint", "wait"])
def test_the_verdicts_on_what_happens_once_read_well(kind: str) -> None:
    for run in labelled(once(kind), 4, 1):
        assert_reads_well(run.frame)


@pytest.mark.parametrize("frame", list(unusual()))
def test_the_verdicts_on_unusual_runs_read_well(frame: RunFrame) -> None:
    assert_reads_well(frame)


def assert_reads_well(frame: RunFrame) -> None:
    for judgement in evaluate(frame, {}):
        text = f"{judgement.verdict.summary} {judgement.verdict.advice}".strip()
        for fault, pattern in FAULTS.items():
            assert not pattern.search(text), f"{judgement.rule_id} has {fault}: {text}"


def test_one_gpu_is_not_advised_more_processes() -> None:
    """The advice isn't to use fewer GPUs, either."""
    idle = f.node(series=f.samples(600, gpu0__busy_pct=0.0), of=f.hardware(gpus=1))
    for rule in ("unused_gpus", "low_gpu_utilization"):
        verdict = judged(rule, f.run(idle)).verdict
        assert "only GPU was never used" in verdict.summary
        assert "process" not in verdict.advice
        assert "finds the GPU (" in verdict.advice


def test_unused_gpus_are_named_and_the_rest_is_counted() -> None:
    busy = {f"gpu{n}__busy_pct": 0.0 if n in (2, 5) else 95.0 for n in range(8)}
    node = f.node(series=f.samples(600, **busy), of=f.hardware(gpus=8))
    verdict = judged("unused_gpus", f.run(node)).verdict
    assert "2 of 8 GPUs were never used: gpu2, gpu5." in verdict.summary
    assert "machines with 6 GPUs in all" in verdict.advice


def test_loader_workers_are_advised_for_each_rank() -> None:
    events = [(1.0, "loader", {"workers": 1, "rank": rank}) for rank in range(8)]
    steps = [f.steps(300, wait=0.4, rank=rank) for rank in range(8)]
    node = f.node(step_tables=steps, events=events, of=f.hardware(vcpus=48))
    advice = judged("dataloader", f.run(node)).verdict.advice
    assert "num_workers=6 in each of the 8 ranks (48 cores)" in advice
    assert "num_workers=6" in judged("input_bound", f.run(node)).verdict.advice


def test_uneven_gpus_are_named() -> None:
    random = np.random.default_rng(5)
    around = {
        f"gpu{n}__busy_pct": np.clip(random.normal(mean, 3, 1200), 0, 100)
        for n, mean in enumerate((70, 92, 40, 71))
    }
    node = f.node(series=f.samples(1200, **around), of=f.hardware(gpus=4))
    verdict = judged("load_balancing", f.run(node, duration=1200)).verdict
    assert "gpu1 (mean 92 %), the least busy gpu2 (40 %)" in verdict.summary
    assert "from gpu1 to gpu2" in verdict.advice


def test_a_known_gpu_is_not_called_unknown() -> None:
    """One that works is used, however short it is known; one that idles may still begin."""
    summaries = []
    for busy in (80.0, 5.0):
        short = f.node(series=f.samples(60, gpu0__busy_pct=busy), of=f.hardware(gpus=1))
        running = replace(f.run(short, duration=600), final=False)
        summaries.append(judged("unused_gpus", running).verdict.summary)
    assert summaries == [
        "The only GPU was used.",
        "Not enough data: the utilisation of the only GPU is known for 1 m 0 s, 5 m 0 s needed.",
    ]


def test_words() -> None:
    assert [write_count(n, "gap") for n in (0, 1, 2, 1.5)] == [
        "0 gaps",
        "1 gap",
        "2 gaps",
        "1.5 gaps",
    ]
    assert (some_gpus(1, 1), some_gpus(1, 4)) == ("the only GPU", "1 of 4 GPUs")
    assert (range_pct([97.8, 98.1]), range_pct([95, 98])) == ("98 %", "95 to 98 %")
    assert name_gpus(["n1/gpu10", "n1/gpu2"]) == "gpu2, gpu10"
    assert name_gpus(["n1/gpu0", "n2/gpu0"]) == "n1/gpu0, n2/gpu0"
    assert name_gpus(["n2/gpu0"], ["n1/gpu0", "n2/gpu0"]) == "n2/gpu0"
    assert name_gpus([f"n1/gpu{n}" for n in range(10)]).endswith("gpu7 and 2 more")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0 s"), (0.4, "less than 1 s"), (59.4, "59 s"), (59.6, "1 m 0 s"), (1401, "23 m 21 s"),
     (3599.6, "1 h 0 m"), (86_399.7, "1 d 0 h"), (273_600, "3 d 4 h")],
)  # fmt: skip
def test_lengths_of_time_have_two_units(seconds, words) -> None:
    assert lasting(seconds) == words
