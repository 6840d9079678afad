"""Epochs count with the part that was done."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.comparison.work import quantity
from advisor.costing.projection import has_reached_plan, projection
from advisor.figures import figures
from rules.frame import NodeFrame
from rules.lost_steps import run_steps
from tests.rules import frames as f
from tests.rules.restarted import Events, gpu_node, process, restore

SECONDS = 1000


def done(*nodes: NodeFrame) -> float | None:
    frame = f.run(*nodes, duration=SECONDS)
    return figures(frame, steps=run_steps(frame)).work.get("epochs")


def epochs(*pairs: tuple[float, int], rank: int = 0) -> Events:
    return [(at, "epoch", {"rank": rank, "number": number}) for at, number in pairs]


def length(samples: int | None, at: float = 1.0) -> Events:
    return [(at, "epoch_length", {"rank": 0, "samples": samples})]


def table(count: int, batch: float = 32.0, **more: float) -> pd.DataFrame:
    return f.steps(count, **more).assign(samples=batch)


def trained(count: int, *events: tuple[float, str, dict], **more: float) -> NodeFrame:
    return gpu_node(table(count, **more), events=events)


@pytest.mark.parametrize(
    ("steps", "expected"), [(4, 0.004), (800, 0.8), (998, 0.998), (999.5, 1.0), (1000, 1.0)]
)
def test_the_first_epoch_is_a_part_of_the_loaders_length(steps, expected) -> None:
    node = trained(int(steps), *epochs((0, 0)), *length(32 * 1000 - 10), duration=0.5)
    assert done(node) == pytest.approx(expected, abs=1e-3)


def test_a_loader_of_unknown_length_and_no_whole_epoch_say_nothing() -> None:
    assert done(trained(800, *epochs((0, 0)))) is None
    assert done(trained(800, *epochs((0, 0)), *length(None))) is None
    assert done(trained(800, *epochs((0, 0)), *length(0))) is None
    unknown = trained(800, *epochs((0, 0)), *length(25_600), batch=float("nan"))
    assert done(unknown) is None
    assert done(trained(800, *length(100))) is None, "no epoch was told"
    assert done(gpu_node(events=epochs((0, 0)) + length(100))) is None, "no step was made"


def test_whole_epochs_count_without_any_steps() -> None:
    told = epochs((0, 0), (100, 1), (200, 2))
    assert done(gpu_node(events=told)) == 2
    assert done(gpu_node(events=told), gpu_node(events=told, key="n2")) == 2


def test_whole_epochs_tell_the_length_of_the_last() -> None:
    told = epochs((0, 0), (100, 1), (200, 2), (300, 3))
    assert done(trained(340, *told)) == pytest.approx(3.4)
    assert done(trained(301, *told)) == pytest.approx(3.01)
    assert done(trained(399, *told)) == pytest.approx(3.99)
    assert done(trained(400, *told)) == 4


def test_a_last_step_of_too_few_batches_is_not_missing() -> None:
    """Five batches, gathered two by two: the fifth has no step."""
    node = trained(2, *epochs((0, 0)), *length(5 * 32), batch=64.0)
    assert done(node) == 1


def test_whole_epochs_of_unequal_length_count_one_each() -> None:
    told = epochs((0, 0), (33, 1), (67, 2), (100, 3), (134, 4))
    assert done(trained(167, *told)) == 5


def test_steps_belong_to_the_epoch_in_which_they_end() -> None:
    """A loop that nobody wraps begins its next step before it tells the next epoch."""
    told = epochs((0, 0), (100.4, 1), (200.4, 2))
    assert done(trained(250, *told)) == pytest.approx(2.5)


def test_an_epoch_that_is_told_at_its_end_counts() -> None:
    assert done(trained(300, *epochs((100, 1), (200, 2), (300, 3)))) == 3
    assert done(trained(250, *epochs((100, 1), (200, 2)))) == pytest.approx(2.5)


def test_all_ranks_and_nodes_of_an_attempt_do_the_same_epochs() -> None:
    told = epochs((0, 0), (100, 1)) + epochs((0.01, 0), (100.01, 1), rank=1)
    both = gpu_node(table(150), table(150, rank=1), events=told)
    other = gpu_node(table(150, start=0.002), events=told, key="n2")
    assert done(both) == done(both, other) == pytest.approx(1.5)
    assert done(gpu_node(table(150), key="n0"), both) == pytest.approx(1.5)


def test_a_later_attempt_adds_its_epochs() -> None:
    """The hook counts from 0 in each process."""
    first = gpu_node(table(200), key="n1", held=(0, 250), events=epochs((0, 0), (100, 1)))
    more = epochs((300, 0), (400, 1)) + restore(299, 1, 200)
    second = gpu_node(table(150, start=300), key="n2", held=(260, 900), events=more)
    assert done(first, second) == pytest.approx(3.5)


def test_a_process_that_resumes_in_the_middle_did_not_do_a_whole_epoch() -> None:
    said = [process(0), process(155, restarts=1), *restore(158, 1, 150)]
    told = epochs((0, 0), (100, 1), (160, 1), (210, 2))
    node = gpu_node(table(150), table(100, start=160), events=sorted([*said, *told], key=str))
    assert done(node) == pytest.approx(2.5)


def test_what_is_done_again_counts_once() -> None:
    said = [process(0), process(155, restarts=1), *restore(158, 1, 100)]
    told = epochs((0, 0), (100, 1), (160, 1), (260, 2))
    node = gpu_node(table(150), table(120, start=160), events=[*said, *told])
    assert done(node) == pytest.approx(2.2)


def test_steps_by_the_second_are_divided_at_the_epochs_begin() -> None:
    seconds = f.steps(100, duration=0.01).assign(count=100.0, samples=3200.0)
    seconds["start_seconds"] = [float(n) for n in range(100)]
    node = gpu_node(seconds, events=epochs((0, 0), (40.5, 1), (81, 2)))
    assert done(node) == pytest.approx(2 + 19 / 40.5, abs=0.001)


@given(
    each=st.integers(2, 60), whole=st.integers(0, 4), part=st.integers(0, 60), told=st.booleans()
)
def test_the_epochs_are_the_steps_over_an_epochs_steps(each, whole, part, told) -> None:
    """The loader's length or whole epochs tell it, whichever is known."""
    part = min(part, each)
    steps = whole * each + part
    begun = epochs(*((float(n * each), n) for n in range(whole + 1)))
    known = length(each * 32) if told else []
    found = done(trained(steps, *begun, *known)) if steps else None
    if not steps or not (told or whole):
        assert found is None
    else:
        assert found == pytest.approx(steps / each, abs=1e-6)
        assert found <= len(begun)


@pytest.mark.parametrize(
    ("amount", "words"), [(0.004, "0.004"), (0.8, "0.8"), (3.0, "3"), (1234.56, "1,234.6")]
)
def test_a_part_of_an_epoch_reads_as_one(amount: float, words: str) -> None:
    assert quantity(amount) == words


@given(part=st.floats(0.001, 1), planned=st.integers(1, 100), usd=st.integers(1, 10**6))
def test_progress_and_the_projected_end_follow_the_part_that_was_done(part, planned, usd) -> None:
    work, parameters = {"epochs": part}, {"epochs": planned}
    found = projection(Decimal(usd), 1000.0, 1000.0, work, parameters)
    assert has_reached_plan(work, parameters) == (part >= planned)
    if part >= planned:
        assert found is None
    else:
        assert float(found.usd) == pytest.approx(usd * planned / part, rel=1e-6)
        assert found.seconds_left == pytest.approx(1000 * (planned / part - 1))
