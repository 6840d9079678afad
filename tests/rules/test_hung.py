"""`hung`: no progress, idle or spinning, and pauses that aren't hangs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rules.catalogue.hung import RULE as HUNG
from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.hang_kinds import HANGS
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.live import so_far
from tests.rules.scenarios.silence_kinds import SILENCES
from tests.rules.scenarios.standstill import Training
from tests.rules.scenarios.stored import Memory, Stored, stored, without_raw_samples
from tests.rules.scenarios.world import Node, World

RULE = "hung"
TICKS = np.arange(4000)


def stands(
    start: float = 1000,
    end: float = 2000,
    busy: float = 0.0,
    watts: float = 60.0,
    cores: float = 0.5,
    with_steps: bool = True,
    events: Any = (),
    key: str = "n1",
) -> NodeFrame:
    """Return a node that works for 4000 s, but not between `start` and `end`."""
    inside = (start <= TICKS) & (end > TICKS)
    series = f.samples(
        4000,
        gpu0__busy_pct=np.where(inside, busy, 90.0),
        gpu0__power_watts=np.where(inside, watts, 250.0) - 190 * (TICKS < 60),
        tree__cpu_seconds_total=np.cumsum(np.where(inside, cores, 6.0)),
        tree__requested_bytes_total=np.cumsum(np.where(inside, 0.0, 5e6)),
        tree__rss_bytes=4e9,
        tree__suspended_count=0.0,
    )
    steps = []
    if with_steps:
        steps = [f.steps(int(start)), f.steps(max(int(4000 - end), 0), start=end)]
    return f.node(key, series, [s for s in steps if len(s)], events, of=f.hardware(gpus=1))


def hardly_works(until: float) -> RunFrame:
    """Make a step a second, of a fiftieth of a core; then nothing."""
    series = f.samples(
        2000, tree__cpu_seconds_total=np.cumsum(np.where(until > TICKS[:2000], 0.02, 0))
    )
    node = f.node(series=series, step_tables=[f.steps(int(until))])
    return replace(f.run(node, duration=2000), final=False)


def run(*nodes: NodeFrame) -> RunFrame:
    return f.run(*nodes, duration=4000)


def told(phase: str) -> list[tuple[float, str, dict[str, Any]]]:
    data = {"phase": phase, "rank": 0}
    return [(1000.0, "phase_begin", data), (2000.0, "phase_end", data)]


FAILED = [(4000.0, "session_end", {"state": "failed", "exit_code": 1})]
FINISHED = [(4000.0, "session_end", {"state": "finished", "exit_code": 0})]
ON_CORES = np.where((TICKS >= 1000) & (TICKS < 2000), 0.02, 4.0)


def without_gpus(with_steps: bool) -> NodeFrame:
    series = f.samples(4000, tree__cpu_seconds_total=np.cumsum(ON_CORES))
    steps = [f.steps(1000), f.steps(2000, start=2000)] if with_steps else []
    return f.node(series=series, step_tables=steps)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(stands()), "fired", id="1000 s of nothing"),
        pytest.param(run(stands(end=1600)), "fired", id="ten minutes"),
        pytest.param(run(stands(end=1599)), "passed", id="not quite"),
        pytest.param(run(stands(cores=3.0)), "passed", id="the cores work meanwhile"),
        pytest.param(run(stands(cores=1.0)), "fired", id="one thread waits in a loop"),
        pytest.param(run(stands(with_steps=False)), "fired", id="no steps told"),
        pytest.param(run(stands(busy=99.0, watts=65.0)), "fired", id="spins"),
        pytest.param(run(stands(busy=99.0, watts=65.0, end=1300)), "fired", id="spins 5 min"),
        pytest.param(run(stands(busy=99.0, watts=65.0, end=1299)), "passed", id="not quite 5"),
        pytest.param(run(stands(busy=99.0, watts=200.0, with_steps=False)), "passed", id="works"),
        pytest.param(run(stands(events=told("checkpoint"))), "passed", id="a long checkpoint"),
        pytest.param(run(stands(events=told("evaluate"))), "fired", id="evaluation that rests"),
        pytest.param(
            run(stands(events=told("evaluate"), cores=6.0)), "passed", id="evaluation on the cores"
        ),
        pytest.param(run(stands(), stands(4001, 4001, key="n2")), "passed", id="a node works"),
        pytest.param(run(stands(), stands(key="n2")), "fired", id="both stand"),
        pytest.param(run(stands(end=4000, events=FINISHED)), "passed", id="its tail"),
        pytest.param(run(stands(end=4000, events=FAILED)), "fired", id="until it was killed"),
        pytest.param(
            replace(run(stands(end=4000)), final=False), "fired", id="still going, hangs now"
        ),
        pytest.param(run(without_gpus(True)), "fired", id="without GPUs, by steps and cores"),
        pytest.param(hardly_works(1000), "fired", id="after little work"),
        pytest.param(hardly_works(1500), "passed", id="little work"),
        pytest.param(run(without_gpus(False)), "insufficient_data", id="no GPU, no steps"),
        pytest.param(run(f.node()), "insufficient_data", id="nothing known"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def spins_unseen(without: tuple[str, ...] = ("power_watts",), **more: Any) -> NodeFrame:
    """Return a node that stands with a busy GPU, of which some series are unknown."""
    node = stands(busy=99.0, watts=65.0, **more)
    lacking = [f"gpu0.{name}" for name in without]
    return replace(node, samples=node.samples.drop(columns=lacking))


def test_a_busy_gpu_of_unknown_power_shows_no_progress() -> None:
    """NCCL's kernels keep a GPU busy while they wait."""
    verdict = judged(RULE, run(spins_unseen(end=1900))).verdict
    assert (verdict.state, verdict.summary) == (
        "insufficient_data",
        "Missing: power of the GPUs.",
    )
    assert judged(RULE, run(spins_unseen(), spins_unseen(key="n2"))).verdict == verdict
    assert not verdict.may_stop


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(spins_unseen(end=1299), id="not long enough"),
        pytest.param(spins_unseen(cores=3.0), id="the cores work"),
        pytest.param(spins_unseen(events=told("checkpoint")), id="a checkpoint was told"),
        pytest.param(
            spins_unseen(events=[(at, "metric", {}) for at in range(1000, 2000, 200)]),
            id="metrics were told",
        ),
        pytest.param(spins_unseen(end=4000, events=FINISHED), id="its tail"),
    ],
)
def test_a_busy_gpu_of_unknown_power_is_not_asked_about_without_need(node: NodeFrame) -> None:
    assert judged(RULE, run(node)).verdict.state == "passed"


@pytest.mark.parametrize(
    ("series", "state"),
    [
        ({"gpu0.sm_active_pct": (80.0, 5.0)}, "fired"),
        ({"gpu0.sm_active_pct": (80.0, 80.0)}, "passed"),
        ({"gpu0.memory_controller_busy_pct": (60.0, 40.0)}, "passed"),
        ({"gpu0.memory_controller_busy_pct": (60.0, 1.0)}, "insufficient_data"),
        ({"gpu0.power_watts": (250.0, float("nan"))}, "insufficient_data"),
    ],
)
def test_other_evidence_of_a_busy_gpu_tells_work_from_spinning(
    series: dict[str, tuple[float, float]], state: str
) -> None:
    node = spins_unseen()
    inside = (node.samples.index >= 1000) & (node.samples.index < 2000)
    columns = {name: np.where(inside, then, at_work) for name, (at_work, then) in series.items()}
    seen = replace(node, samples=node.samples.assign(**columns))
    assert judged(RULE, run(seen)).verdict.state == state


def test_steps_of_an_hour_are_no_hang() -> None:
    node = stands(end=1900)
    slow = replace(node, steps=f.steps(3, duration=1200))
    assert judged(RULE, run(slow)).verdict.state == "passed"


@pytest.mark.parametrize(
    ("step_seconds", "state"), [(60, "fired"), (100, "fired"), (100.5, "passed"), (200, "passed")]
)
def test_silence_counts_after_ten_median_steps(step_seconds: float, state: str) -> None:
    """1000 s without a step, of which ten minutes would do in a loop of short steps."""
    before, after = int(1000 // step_seconds), int(2000 // step_seconds)
    steps = [f.steps(before, step_seconds), f.steps(after, step_seconds, start=2000)]
    node = replace(stands(), steps=pd.concat(steps, ignore_index=True))
    assert judged(RULE, run(node)).verdict.state == state


def test_a_short_gap_doesnt_end_it_and_work_does() -> None:
    node = stands()
    gap = node.samples.copy()
    gap.loc[1500:1600] = f.GAP
    assert judged(RULE, run(replace(node, samples=gap))).verdict.claimed_seconds_high > 950
    works = node.samples.copy()
    works.loc[1450:1550, "gpu0.busy_pct"] = 90.0
    assert judged(RULE, run(replace(node, samples=works))).verdict.state == "passed"


def test_it_names_how_long_and_when() -> None:
    judgement = judged(RULE, run(stands()))
    assert "16 m 40 s" in judgement.verdict.summary
    [window] = judgement.numbers.windows
    assert (window.start_seconds, window.end_seconds) == pytest.approx((1000, 2000), abs=1)


def drawn(kind: str, seed: int) -> Training:
    """Return a training of that kind, with parameters at random."""
    of = {**HANGS, **SILENCES}[kind]
    return of(np.random.default_rng([seed, *kind.encode()]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", HANGS)
def test_every_hang_is_found_and_may_be_stopped(kind: str, seed: int) -> None:
    verdict = judged(RULE, drawn(kind, seed).frame()).verdict
    assert (verdict.state, verdict.may_stop) == ("fired", True)


LOOK_SECONDS = 10.0


@pytest.mark.parametrize("has_steps", [True, False])
@pytest.mark.parametrize("kind", HANGS)
def test_looks_that_wait_until_it_can_fire_find_it_as_soon_as_others(
    kind: str, has_steps: bool
) -> None:
    """Go from look to look as the rule says; the one before the finding would have been too
    early.
    """
    run = drawn(kind, 8).frame()
    if not has_steps:
        nodes = {key: replace(node, steps=node.steps[:0]) for key, node in run.nodes.items()}
        run = replace(run, nodes=nodes)
    at, looks = LOOK_SECONDS, 1
    while at < run.duration_seconds and not fires(run, at):
        soonest = HUNG.soonest_seconds(so_far(run, at), HUNG.values())
        at, looks = max(at + LOOK_SECONDS, soonest), looks + 1
    assert fires(run, at) == fires(run, run.duration_seconds)
    if fires(run, at):
        assert not fires(run, at - LOOK_SECONDS)
    assert looks < at / LOOK_SECONDS / 2 or not has_steps


def fires(run: RunFrame, seconds: float) -> bool:
    return judged(RULE, so_far(run, seconds)).verdict.state == "fired"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", SILENCES)
def test_no_silence_for_a_good_reason_is_a_hang(kind: str, seed: int) -> None:
    assert judged(RULE, drawn(kind, seed).frame()).verdict.state != "fired"


@pytest.fixture(scope="module")
def run_of() -> Callable[[str], Stored]:
    """Return a training of that kind in a store."""
    return cache(lambda kind: stored(drawn(kind, 5).frame(), Memory()))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("kind", [*HANGS, *SILENCES])
@pytest.mark.parametrize(
    "seconds", [1.0, 10.0, *(pytest.param(s, marks=pytest.mark.long) for s in (0.5, 2.0, 5.0))]
)
def test_the_verdict_is_the_same_on_every_grid(
    kind: str, seconds: float, run_of: Callable[[str], Stored]
) -> None:
    verdict = judged(RULE, run_of(kind).read(seconds)).verdict
    assert (verdict.state == "fired") == (kind in HANGS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [*HANGS, *SILENCES])
def test_tiers_are_enough_for_the_verdict(kind: str, run_of: Callable[[str], Stored]) -> None:
    verdict = judged(RULE, without_raw_samples(run_of(kind)).read(30.0)).verdict
    assert (verdict.state == "fired") == (kind in HANGS)


@pytest.mark.parametrize("kind", HANGS)
def test_without_reported_steps_it_never_stops(kind: str) -> None:
    frame = drawn(kind, 6).frame()
    nodes = {key: replace(node, steps=node.steps[:0]) for key, node in frame.nodes.items()}
    assert not judged(RULE, replace(frame, nodes=nodes)).verdict.may_stop


EVIDENCE = ("tree.cpu_seconds_total", "tree.*_bytes_total", "tree.suspended_count")


@pytest.mark.parametrize("unseen", EVIDENCE)
@pytest.mark.parametrize("kind", ["collective_spins", "data_loader_deadlock"])
def test_what_was_not_seen_of_its_processes_forbids_a_stop(kind: str, unseen: str) -> None:
    frame = drawn(kind, 7).frame()
    nodes = {key: without(node, unseen) for key, node in frame.nodes.items()}
    assert not judged(RULE, replace(frame, nodes=nodes)).verdict.may_stop


def without(node: NodeFrame, pattern: str) -> NodeFrame:
    unseen = [name for name in node.samples.columns if fnmatch(str(name), pattern)]
    assert unseen
    return replace(node, samples=node.samples.drop(columns=unseen))


def test_without_steps_a_core_that_polls_needs_reads_writes_and_memory() -> None:
    """A core may read text: alone, for twelve minutes."""
    polls = stands(cores=1.0, with_steps=False)
    assert judged(RULE, run(polls)).verdict.state == "fired"
    for unseen in ("tree.*_bytes_total", "tree.rss_bytes"):
        verdict = judged(RULE, run(without(polls, unseen))).verdict
        assert verdict.state == "insufficient_data"
        assert "of the run's processes" in verdict.summary


def set_up(world: World, factor: float) -> None:
    """Stand for 10 minutes without any work, or for 5 of spinning at idle power."""
    world.seconds = max(world.seconds, 2700.0)
    spins = world.random.random() < 0.4
    length = (300.0 if spins else 600.0) * factor
    start = world.random.uniform(0.3, 0.9) * (world.seconds - length - 200) + 100

    def change(node: Node) -> None:
        inside = (node.times >= start) & (node.times < start + length)
        ends = node.steps["start_seconds"] + node.steps["duration_seconds"]
        node.steps = node.steps[(ends <= start) | (node.steps["start_seconds"] >= start + length)]
        node.events = [e for e in node.events if not start <= e[0] < start + length]
        cpu = node.series["host.cpu_busy_pct"]
        cpu[inside] = 4.0 if spins else 2.0
        _count_cores(world, node)
        for gpu in range(node.gpus):
            if node.series[f"gpu{gpu}.busy_pct"].any():
                node.series[f"gpu{gpu}.busy_pct"][inside] = 99.0 if spins else 0.0
                node.series[f"gpu{gpu}.power_watts"][inside] = 75.0 if spins else 60.0

    world.changes.append(change)


def _count_cores(world: World, node: Node) -> None:
    cores = node.series["host.cpu_busy_pct"] / 100 * node.vcpus * 0.95
    node.series["tree.cpu_seconds_total"] = np.cumsum(cores) * world.resolution_seconds


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, confounders.an_unused_gpu, *confounders.DATA))
