"""`unused_gpus`: given and never used, which is neither low nor a bottleneck."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from rules.ledger import ledger
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "unused_gpus"
SHORT_USE = np.where(np.arange(600) < 10, 50.0, 0.0)
LATE = np.where(np.arange(600) < 400, 0.0, 90.0)


def gpus(*busy: f.Values, key: str = "n1") -> NodeFrame:
    series: dict[str, Any] = {f"gpu{n}__busy_pct": values for n, values in enumerate(busy)}
    return f.node(key, f.samples(600, **series), of=f.hardware(gpus=len(busy)))


def live(node: NodeFrame) -> RunFrame:
    return replace(f.run(node), final=False)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(gpus(90.0, 0.0)), "fired", id="one of two"),
        pytest.param(f.run(gpus(90.0, 2.0)), "fired", id="at the boundary"),
        pytest.param(f.run(gpus(90.0, 2.1)), "passed", id="just above"),
        pytest.param(f.run(gpus(90.0, SHORT_USE)), "passed", id="used for ten seconds"),
        pytest.param(f.run(gpus(90.0, 15.0)), "passed", id="low is not unused"),
        pytest.param(f.run(gpus(90.0), gpus(0.0, key="n2")), "fired", id="a whole node"),
        pytest.param(f.run(gpus(0.0, 0.0)), "fired", id="all of them, at the end"),
        pytest.param(f.run(gpus(6.0, 0.0)), "fired", id="beside one that is hardly used"),
        pytest.param(f.run(gpus(6.0, 6.0)), "passed", id="hardly used is not unused"),
        pytest.param(f.run(gpus(0.0, f.GAP)), "insufficient_data", id="beside an unknown one"),
        pytest.param(live(gpus(6.0, 0.0)), "insufficient_data", id="none in use so far"),
        pytest.param(live(gpus(0.0, 0.0)), "insufficient_data", id="all of them, so far"),
        pytest.param(live(gpus(90.0, 0.0)), "fired", id="one of two, so far"),
        pytest.param(live(gpus(LATE, 0.0)), "insufficient_data", id="200 s since the first use"),
        pytest.param(f.run(gpus(90.0, f.GAP)), "insufficient_data", id="one unknown"),
        pytest.param(f.run(gpus(f.GAP, f.GAP)), "insufficient_data", id="all unknown"),
        pytest.param(f.run(f.node()), "not_applicable", id="no GPU"),
        pytest.param(f.run(), "not_applicable", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


@pytest.mark.parametrize("held", [(f.GIB, 0.0), (f.GIB, f.GIB)])
def test_a_gpu_on_which_the_training_says_it_has_memory_is_used(held: tuple[float, ...]) -> None:
    memory = {f"gpu{n}__tree_memory_used_bytes": held[n] for n in range(2)}
    busy = {"gpu0__busy_pct": 0.0, "gpu1__busy_pct": 0.0}
    told = [(5.0, "gpu_memory", {"peak_allocated_bytes": f.GIB, "rank": 0})]
    node = f.node("n1", f.samples(600, **busy, **memory), [], told, of=f.hardware(gpus=2))
    verdict = judged(RULE, f.run(node)).verdict
    unused = [n for n in range(2) if not held[n]]
    assert verdict.state == ("fired" if unused else "passed")
    assert all((f"gpu{n}" in verdict.summary) == (n in unused) for n in range(2))
    labels = {entry.gpu: entry.label for entry in ledger(f.run(node)).entries}
    assert labels == {n: "unused_gpu" if n in unused else "gpu_idle" for n in range(2)}


def test_the_waste_is_half_to_all_of_their_share_of_the_run() -> None:
    verdict = judged(RULE, f.run(gpus(90.0, 90.0, 90.0, 0.0))).verdict
    assert (verdict.claimed_seconds_low, verdict.claimed_seconds_high) == (75, 150)
    assert "1 of 4 GPUs was never used" in verdict.summary


def test_it_shows_each_unused_gpu_over_the_whole_run() -> None:
    windows = judged(RULE, f.run(gpus(90.0, 0.0, 0.0))).numbers.windows
    assert [(w.entity, w.end_seconds) for w in windows] == [("n1/gpu1", 600), ("n1/gpu2", 600)]


HOURS = np.arange(6 * 360)
"""Six hours in samples of 10 s."""


def stops_after(hours: float, *others: float, memory: float = 0.0) -> RunFrame:
    """Return a GPU that works for so many hours of six, beside others."""
    columns: dict[str, Any] = {"gpu0__busy_pct": np.where(360 * hours > HOURS, 95.0, 0.0)}
    columns["gpu0__memory_used_bytes"] = memory * f.GIB
    columns |= {f"gpu{n}__busy_pct": busy for n, busy in enumerate(others, 1)}
    series = f.samples(6 * 3600, resolution=10, **columns)
    node = f.node(series=series, of=f.hardware(gpus=1 + len(others)))
    return f.run(node, duration=6 * 3600, resolution=10)


@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize(
    ("hours", "state"), [(0.5, "fired"), (3, "fired"), (4.9, "fired"), (5.1, "passed")]
)
def test_a_gpu_that_worked_once_is_judged_by_the_last_hour(
    hours: float, state: str, final: bool
) -> None:
    verdict = judged(RULE, replace(stops_after(hours, 95.0, 95.0), final=final)).verdict
    assert verdict.state == state
    if state == "fired":
        assert f"idle for the last {int(6 - hours)} h" in verdict.summary
        assert verdict.claimed_seconds_high == pytest.approx((6 - hours) * 1200, abs=10)


def test_if_all_gpus_have_stopped_it_is_for_other_rules_to_say() -> None:
    assert judged(RULE, stops_after(3)).verdict.state == "passed"


@pytest.mark.parametrize(("held", "removes"), [(0.3, True), (12.0, False)])
def test_a_gpu_whose_memory_is_needed_is_not_removed(held: float, removes: bool) -> None:
    verdict = judged(RULE, stops_after(3, 95.0, memory=held)).verdict
    assert ("fewer GPUs" in verdict.advice) == removes
    assert ("12.0 GiB" in verdict.summary) != removes


def set_up(world: World, factor: float) -> None:
    """Add a GPU whose 99th percentile is at most 2 %."""
    number, world.gpus = world.gpus, world.gpus + 1

    def change(node: Node) -> None:
        noise = world.noise(len(node.times), 0.02)
        node.series[f"gpu{number}.busy_pct"] = np.clip(2 / factor - 0.05 + noise, 0, 100)

    world.changes.append(change)


SCENARIO = Scenario(
    RULE,
    set_up,
    (*confounders.CALM, *confounders.GPUS[1:], *confounders.DATA, *confounders.ANYWHERE),
)
