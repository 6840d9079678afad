"""`cpu_throttled`: a quota of CPU time that is used up, and the wait that it causes."""

from __future__ import annotations

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from rules.ledger import ledger
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "cpu_throttled"
TICKS = np.arange(601.0)
PERIODS_PER_SECOND = 10.0


def quota(
    share: float | None, starved: float | None = 0.3, key: str = "n1", held_back: float = 2.0
) -> NodeFrame:
    """Return a node whose quota of 4 cores is used up in a share of the periods of 600 s, and whose
    training waits for a core for a share of the time.
    """
    series: dict[str, f.Values] = {"container__cpu_seconds_total": 3.5 * TICKS}
    if share is not None:
        series["container__cpu_periods_total"] = PERIODS_PER_SECOND * TICKS
        series["container__cpu_throttled_periods_total"] = share * PERIODS_PER_SECOND * TICKS
        series["container__cpu_throttled_seconds_total"] = held_back * TICKS
    if starved is not None:
        series["tree__starved_seconds_total"] = starved * TICKS
    return f.node(key, f.samples(601, **series), [f.steps(600)], of=f.hardware(vcpus=4))


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(quota(0.6)), "fired", id="used up most of the time"),
        pytest.param(f.run(quota(0.25)), "fired", id="at the boundary"),
        pytest.param(f.run(quota(0.24)), "passed", id="just below it"),
        pytest.param(f.run(quota(0.6, starved=0.0)), "fired", id="nothing waited"),
        pytest.param(f.run(quota(0.6, starved=None)), "fired", id="the wait is unknown"),
        pytest.param(f.run(quota(None)), "not_applicable", id="no quota"),
        pytest.param(f.run(quota(0.0), quota(0.6, key="n2")), "fired", id="the second node"),
        pytest.param(f.run(f.node()), "not_applicable", id="no series"),
        pytest.param(f.run(), "not_applicable", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_it_needs_a_minute_of_work() -> None:
    def first(seconds: int) -> RunFrame:
        node = quota(0.6)
        table = node.samples[node.samples.index <= seconds]
        return f.run(f.node("n1", table, [f.steps(600)], of=f.hardware(vcpus=4)))

    assert judged(RULE, first(61)).verdict.state == "fired"
    assert judged(RULE, first(58)).verdict.state == "insufficient_data"


def test_it_claims_the_wait_for_a_core() -> None:
    frame = f.run(quota(0.6), quota(0.0, starved=0.0, key="n2"))
    verdict = judged(RULE, frame).verdict
    assert "n1 used up its quota of 4 cores in 60 % of the periods" in verdict.summary
    assert "waited 3 m 0 s for a core" in verdict.summary
    (claim,) = verdict.claims
    assert claim.seconds == pytest.approx(180 / 2, rel=0.01)
    assert ledger(frame).held_seconds()["n1"]["starved"] == pytest.approx(180, rel=0.02)


def test_others_on_the_machine_are_not_the_quotas_wait() -> None:
    """The container was held back for 0.1 s a second; the rest of the wait has another cause."""
    (claim,) = judged(RULE, f.run(quota(0.6, held_back=0.1))).verdict.claims
    assert claim.seconds == pytest.approx(60, rel=0.01)


def test_an_unknown_wait_is_not_claimed() -> None:
    verdict = judged(RULE, f.run(quota(0.6, starved=None))).verdict
    assert verdict.claims == ()
    assert "isn't known" in verdict.summary


def test_a_wait_that_the_quota_may_not_have_caused_is_not_claimed() -> None:
    """Others on the machine make a run wait as well: how long it was held back must be known."""
    node = quota(0.6)
    table = node.samples.drop(columns="container.cpu_throttled_seconds_total")
    frame = f.run(f.node("n1", table, [f.steps(600)], of=f.hardware(vcpus=4)))
    assert judged(RULE, frame).verdict.claims == ()


def set_up(world: World, factor: float) -> None:
    """Use the quota up in 25 % of the periods, and let the training wait for a core."""
    share = min(0.25 * factor, 0.95)

    def change(node: Node) -> None:
        periods = PERIODS_PER_SECOND * world.resolution_seconds
        used_up = np.where(node.working, share, 0.0) * periods
        waits = np.where(node.working, share / 4, 0.0) * world.resolution_seconds
        node.series["container.cpu_periods_total"] = np.cumsum(np.full(len(node.times), periods))
        node.series["container.cpu_throttled_periods_total"] = np.cumsum(used_up)
        node.series["container.cpu_throttled_seconds_total"] = np.cumsum(8 * waits)
        node.series["tree.starved_seconds_total"] = np.cumsum(waits)

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.SIMPLE, *confounders.ANYWHERE))
