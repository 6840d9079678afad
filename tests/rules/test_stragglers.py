"""`stragglers`: ranks without GPUs, one of which keeps the others waiting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rules.frame import NodeFrame, RunFrame
from rules.rule import Verdict
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "stragglers"


def rank(number: int, own: float, wait: float = 0.0, steps: int = 200) -> pd.DataFrame:
    """Return a step a second, of which the rank needs `own` and then waits outside of its step."""
    random = np.random.default_rng(number)
    table = f.steps(steps, rank=number)
    length = own * (1 + 0.03 * random.normal(size=steps))
    return table.assign(duration_seconds=length, data_wait_seconds=wait * length)


def run(*ranks: pd.DataFrame, **more: Any) -> RunFrame:
    return f.run(f.node(step_tables=ranks, **more), duration=250)


def verdict(frame: RunFrame) -> Verdict:
    return judged(RULE, frame).verdict


EQUAL = [rank(number, 0.6) for number in range(3)]


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(*EQUAL, rank(3, 0.8)), "fired", id="one is slower"),
        pytest.param(run(*EQUAL, rank(3, 0.63)), "insufficient_data", id="hardly slower"),
        pytest.param(run(*EQUAL, rank(3, 0.5)), "insufficient_data", id="one is faster"),
        pytest.param(run(*EQUAL), "insufficient_data", id="equal, but why"),
        pytest.param(run(*EQUAL, rank(3, 0.6, wait=0.3)), "fired", id="waits for its data"),
        pytest.param(
            run(*(rank(n, 0.6, wait=0.3) for n in range(4))),
            "insufficient_data",
            id="all wait for data",
        ),
        pytest.param(run(rank(0, 0.6)), "not_applicable", id="a single rank"),
        pytest.param(run(rank(0, 0.6, steps=20), rank(1, 0.9, steps=20)), "insufficient_data",
                     id="few steps"),
        pytest.param(f.run(f.node()), "insufficient_data", id="nothing at all"),
        pytest.param(
            run(*EQUAL, rank(3, 0.8), of=f.hardware(gpus=1)), "not_applicable", id="GPUs"
        ),
    ],
)  # fmt: skip
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert verdict(frame).state == state


def test_it_names_the_rank_and_why_and_what_it_costs() -> None:
    late = verdict(run(*EQUAL, rank(3, 0.8)))
    assert "n1/rank3" in late.summary
    assert "needs longer for itself" in late.summary
    assert late.claimed_seconds_high == pytest.approx(199 * 0.2, rel=0.05)
    waits = verdict(run(*EQUAL, rank(3, 0.6, wait=0.3)))
    assert "waits longer for its data" in waits.summary


def test_the_order_of_ranks_and_nodes_changes_nothing() -> None:
    tables = [*EQUAL, rank(3, 0.8)]
    nodes = [f.node(f"n{n}", step_tables=[table]) for n, table in enumerate(tables)]
    forth, back = (verdict(f.run(*order, duration=250)) for order in (nodes, nodes[::-1]))
    assert forth == back
    assert "n3/rank3" in forth.summary


def synchronous(slow: float, count: int = 100) -> NodeFrame:
    """Return four ranks that take a second for every step; what one doesn't need, it
    communicates.
    """
    events = []
    for number, own in enumerate((0.5, 0.5, 0.5, slow)):
        for step in range(count):
            data = {"phase": "communication", "rank": number}
            events += [(step + own, "phase_begin", data), (step + 1 - 1e-3, "phase_end", data)]
    tables = [f.steps(count, rank=number) for number in range(4)]
    return f.node(step_tables=tables, events=sorted(events, key=lambda event: event[0]))


@pytest.mark.parametrize(("slow", "state"), [(0.8, "fired"), (0.5, "passed")])
def test_ranks_that_wait_inside_of_their_steps_are_told_apart_by_communication(
    slow: float, state: str
) -> None:
    assert verdict(f.run(synchronous(slow), duration=100)).state == state


def test_communication_that_an_agent_lost_makes_no_straggler() -> None:
    """A rank of which a part is missing looks as if it needed longer for itself."""
    whole = synchronous(0.5)
    is_lost = [
        data["rank"] == 3 and int(at) % 2 == 1
        for at, data in zip(whole.events["time_seconds"], whole.events["data"], strict=True)
    ]
    rest = whole.events[~np.array(is_lost)]
    lost = pd.DataFrame([(99.9, "events_lost", {"count": 100})], columns=rest.columns)
    node = replace(whole, events=pd.concat([rest, lost], ignore_index=True))
    assert verdict(f.run(replace(whole, events=rest), duration=100)).state == "fired"
    assert verdict(f.run(node, duration=100)).state == "insufficient_data"


def timed(*waits: float, times: int = 5) -> NodeFrame:
    """Return ranks of which every step takes a second; DDP timed how long each waits in it."""
    events = [
        (10.0 * n, "ddp", {"rank": rank, "iteration": n, "communication_seconds": waited})
        for n in range(times)
        for rank, waited in enumerate(waits)
    ]
    tables = [f.steps(100, rank=rank) for rank in range(len(waits))]
    return f.node(step_tables=tables, events=events)


@pytest.mark.parametrize(
    ("waits", "state"),
    [((0.5, 0.01), "fired"), ((0.5, 0.47), "passed"), ((0.3, 0.3, 0.3, 0.02), "fired")],
)
def test_ddps_own_records_name_the_rank_that_the_others_wait_for(
    waits: tuple[float, ...], state: str
) -> None:
    found = verdict(f.run(timed(*waits), duration=100))
    assert found.state == state
    if state == "fired":
        assert f"n1/rank{len(waits) - 1}" in found.summary
        assert found.claimed_seconds_high == pytest.approx(99 * (waits[0] - waits[-1]))


def test_the_wait_of_one_rank_alone_says_nothing() -> None:
    node = timed(0.5, 0.01)
    of_one = node.events[[data["rank"] == 0 for data in node.events["data"]]]
    for part in (of_one, timed(0.5, 0.01, times=2).events):
        found = verdict(f.run(replace(node, events=part), duration=100))
        assert found.state == "insufficient_data"
        assert "how long each waits for the others inside of them isn't known" in found.summary


def test_a_pause_of_one_rank_makes_no_straggler() -> None:
    paused = rank(3, 0.6)
    paused.loc[50:70, "duration_seconds"] += 2.0
    assert verdict(run(*EQUAL, paused)).state == "insufficient_data"


def set_up(world: World, factor: float) -> None:
    """Let one rank take 10 % longer for its step than the other three."""
    world.gpus, world.ranks = 0, 4

    def change(node: Node) -> None:
        """Let all but the first rank of the first node need less, and wait between their steps."""
        is_slow = (node.steps["rank"] == 0).to_numpy()
        others = node.steps["duration_seconds"] / (1 + 0.1 * factor)
        node.steps["duration_seconds"] = others.where(~is_slow, node.steps["duration_seconds"])
        node.steps["data_wait_seconds"] = 0.02 * node.steps["duration_seconds"]

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, confounders.SIMPLE)
