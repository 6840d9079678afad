"""`gpu_memory_increase`: leaks, and ups and downs that aren't leaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import CARD_BYTES, Node, World

RULE = "gpu_memory_increase"
TICKS = np.arange(3600)
RANDOM = np.random.default_rng(5)


def memory(*pct: f.Values, events: bool = False) -> NodeFrame:
    """Return an hour on GPUs with so much memory in use."""
    series: dict[str, Any] = {
        f"gpu{n}__memory_used_bytes": np.broadcast_to(np.asarray(values), 3600) / 100 * 16 * f.GIB
        for n, values in enumerate(pct)
    }
    busy: dict[str, Any] = {f"gpu{n}__busy_pct": 90.0 for n in range(len(pct))}
    saved = [(3000.0, "checkpoint", {"seconds": 2.0})] if events else []
    table = f.samples(3600, **series, **busy)
    return f.node("n1", table, [], saved, of=f.hardware(gpus=len(pct)))


def leak(points: float, start: float = 40.0) -> f.Values:
    return start + points * TICKS / 3600


SWINGS = np.where(TICKS // 60 % 2 == 0, 0.0, 97.0)
NOISY = RANDOM.normal(40, 10, 3600)
ALLOCATOR = 50 - 40 * np.exp(-TICKS / 15)
GAPS = np.where(TICKS % 4 == 0, f.GAP, 40 + 10 * TICKS / 3600)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(memory(leak(10)), duration=3600), "fired", id="a slow leak"),
        pytest.param(f.run(memory(leak(5.3)), duration=3600), "fired", id="just above"),
        pytest.param(f.run(memory(leak(5)), duration=3600), "passed", id="at the boundary"),
        pytest.param(f.run(memory(40.0), duration=3600), "passed", id="level"),
        pytest.param(f.run(memory(leak(-10)), duration=3600), "passed", id="falling"),
        pytest.param(f.run(memory(SWINGS), duration=3600), "passed", id="swings 0 to 97"),
        pytest.param(f.run(memory(NOISY), duration=3600), "passed", id="noise"),
        pytest.param(f.run(memory(ALLOCATOR), duration=3600), "passed", id="the allocator fills"),
        pytest.param(f.run(memory(GAPS), duration=3600), "fired", id="gaps are unknown"),
        pytest.param(f.run(memory(40.0, leak(10)), duration=3600), "fired", id="one of two GPUs"),
        pytest.param(f.run(memory(f.GAP), duration=3600), "insufficient_data", id="unknown"),
        pytest.param(f.run(f.node()), "not_applicable", id="no GPU"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_what_is_freed_after_the_last_step_hides_nothing() -> None:
    freed = np.where(TICKS < 3000, leak(20), 1.0)
    node = replace(memory(freed), steps=f.steps(3000))
    assert judged(RULE, f.run(node, duration=3600)).verdict.state == "fired"


def test_at_risk_is_what_was_not_saved_and_only_where_the_memory_would_fill() -> None:
    low = judged(RULE, f.run(memory(leak(10)), duration=3600)).verdict
    assert ("is lost" in low.summary, low.severity) == (False, "low")
    full = judged(RULE, f.run(memory(leak(50)), duration=3600)).verdict
    assert "When it is full, 1 h 0 m of work is lost." in full.summary
    assert full.claims == (), "this run lost nothing"
    saved = judged(RULE, f.run(memory(leak(50), events=True), duration=3600)).verdict
    assert "When it is full, 10 m 0 s of work is lost." in saved.summary


def test_a_running_run_is_judged_by_what_it_has_so_far() -> None:
    node = memory(leak(60))
    early = replace(node, samples=node.samples[node.samples.index < 900])
    frame = replace(f.run(early, duration=900), final=False)
    assert judged(RULE, frame).verdict.state == "fired"


def test_it_answers_to_the_name_of_sagemaker() -> None:
    assert judged(RULE, f.run(memory(leak(10)), duration=3600), {"increase": 12}).verdict.state == (
        "passed"
    )


def set_up(world: World, factor: float) -> None:
    """Raise memory by more than 5 points from the start of the work to its end, as a slope or in
    stairs.
    """
    rise, stairs = 5 * factor, world.random.random() < 0.3

    def change(node: Node) -> None:
        when = np.flatnonzero(node.working)
        done = np.clip((np.arange(len(node.times)) - when[0]) / (when[-1] - when[0]), 0, 1)
        done = np.floor(done * 4.999) / 4 if stairs else done
        for number in range(world.gpus):
            node.series[f"gpu{number}.memory_used_bytes"] += rise * done / 100 * CARD_BYTES

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.ON_GPU, *confounders.DATA, *confounders.ANYWHERE))
