"""`checkpoint_stalls`: saving delays the training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, Pause, World

RULE = "checkpoint_stalls"
TICKS = np.arange(1000)


def saving(
    count: int,
    seconds: float,
    told: str = "phase",
    gpu_meanwhile: float = 0.0,
    written: float | None = None,
) -> NodeFrame:
    """Return a thousand seconds with so many checkpoints, at equal distances."""
    starts = [(n + 0.5) * 1000 / count for n in range(count)]
    inside = np.zeros(1000, dtype=bool)
    events: list[tuple[float, str, dict[str, Any]]] = []
    for start in starts:
        inside |= (start <= TICKS) & (start + seconds > TICKS)
        if told == "phase":
            data = {"phase": "checkpoint", "rank": 0}
            events.append((start, "phase_begin", data))
            events.append((start + seconds, "phase_end", data))
        elif told == "event":
            events.append((start + seconds, "checkpoint", {"seconds": seconds}))
    series: dict[str, Any] = {"gpu0__busy_pct": np.where(inside, gpu_meanwhile, 90.0)}
    if written is not None:
        series["disk__written_bytes_total"] = np.cumsum(np.where(inside, written, 1e5))
    return f.node(series=f.samples(1000, **series), events=events, of=f.hardware(gpus=1))


def run(node: NodeFrame, duration: float = 1000) -> RunFrame:
    return f.run(node, duration=duration)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(saving(10, 6)), "fired", id="6 %"),
        pytest.param(run(saving(10, 5)), "fired", id="at the boundary"),
        pytest.param(run(saving(10, 4.9)), "passed", id="just below"),
        pytest.param(run(saving(10, 6, told="event")), "fired", id="told by events"),
        pytest.param(run(saving(2, 40)), "passed", id="two are too few"),
        pytest.param(run(saving(3, 20)), "fired", id="three are enough"),
        pytest.param(run(saving(10, 6, gpu_meanwhile=85.0)), "passed", id="in the background"),
        pytest.param(run(saving(10, 6, told="", written=2e8)), "fired", id="seen by its writing"),
        pytest.param(run(saving(10, 6, told="", written=2e5)), "passed", id="little is written"),
        pytest.param(
            run(saving(10, 6, told="", written=2e8, gpu_meanwhile=85.0)),
            "passed",
            id="writing while the GPU works",
        ),
        pytest.param(run(saving(10, 6, told="")), "insufficient_data", id="nobody tells"),
        pytest.param(run(saving(2, 50)), "fired", id="two of a tenth"),
        pytest.param(run(saving(1, 6), duration=60), "fired", id="a single one in a minute"),
        pytest.param(run(saving(1, 4.9), duration=49), "passed", id="less than five seconds"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_writing_after_which_no_gpu_works_again_stopped_nothing() -> None:
    """Such writing is in the idle tail: three of four bursts are left."""
    whole = saving(4, 50, told="", written=2e8)
    busy = whole.samples["gpu0.busy_pct"].to_numpy(copy=True)
    busy[900:] = 0.0
    ended = f.node(series=whole.samples.assign(**{"gpu0.busy_pct": busy}), of=f.hardware(gpus=1))
    counts = [judged(RULE, run(each)).numbers.values["stalls_count"] for each in (whole, ended)]
    assert counts == [4, 3]


@pytest.mark.parametrize(("gpu_pct", "state"), [(90.0, "passed"), (0.0, "fired")])
def test_a_checkpoint_shorter_than_a_sample_is_judged_by_what_is_known(
    gpu_pct: float, state: str
) -> None:
    saved = [(at, "checkpoint", {"seconds": 6}) for at in np.arange(57.0, 1000.0, 100.0)]
    series = f.samples(1000, resolution=10.0, gpu0__busy_pct=gpu_pct)
    series.loc[0.0] = 90.0
    series.loc[20.0:40.0] = 90.0
    node = f.node(series=series, events=saved, of=f.hardware(gpus=1))
    frame = f.run(node, duration=1000, resolution=10.0)
    assert judged(RULE, frame).verdict.state == state


def test_the_waste_of_stalls_is_most_of_their_time() -> None:
    verdict = judged(RULE, run(saving(10, 6))).verdict
    assert (verdict.claimed_seconds_low, verdict.claimed_seconds_high) == pytest.approx((42, 57))


def set_up(world: World, factor: float) -> None:
    """Spend 5 % of the run in at least three checkpoints, recorded or seen as bursts of writing.
    The last burst isn't one of them: no GPU works after it."""
    is_recorded = world.random.random() < 0.6
    count = world.epochs if is_recorded else world.epochs - 1
    each = 0.05 * factor * world.seconds / count
    world.pauses.append(Pause("checkpoint", each, gpu_pct=1.0, is_told=is_recorded))
    if not is_recorded:
        world.with_steps = False

        def write(node: Node) -> None:
            idle = ~node.working & (node.times > world.begin_seconds)
            idle &= node.times < world.seconds - world.tail_seconds
            written = np.where(idle, 2e8, 4e5) * world.resolution_seconds
            node.series["disk.written_bytes_total"] = np.cumsum(written)

        world.changes.append(write)


SCENARIO = Scenario(
    RULE, set_up, (*confounders.SIMPLE, *confounders.GPUS, *confounders.DATA, *confounders.ANYWHERE)
)
