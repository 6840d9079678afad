"""`cpu_bottleneck`: full cores and idle GPUs, and the runs that only look like it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.changes import bottleneck
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import World

RULE = "cpu_bottleneck"
TICKS = np.arange(600)


def host(cpu: f.Values, *gpus: f.Values, key: str = "n1", **more: Any) -> NodeFrame:
    """Return 600 s of a node with these GPUs, from the first second on at work."""
    busy: dict[str, Any] = {f"gpu{n}__busy_pct": values for n, values in enumerate(gpus)}
    series = f.samples(600, host__cpu_busy_pct=cpu, **busy, **more)
    return f.node(key, series, [f.steps(600)], of=f.hardware(gpus=len(gpus)))


def share(of: float) -> f.Values:
    """Return how busy a GPU is that idles for that share of the time."""
    return np.where(100 * of > TICKS % 100, 2.0, 95.0)


ONE_CORE: dict[str, Any] = {f"cpu{n}__busy_pct": 100.0 if n == 3 else 4.0 for n in range(8)}
GAPS = np.where(TICKS % 3 == 0, f.GAP, 97.0)
SINGLE_CORES = f.node(
    series=f.samples(600, gpu0__busy_pct=share(0.8), cpu0__busy_pct=99.0, cpu1__busy_pct=95.0),
    step_tables=[f.steps(600)],
    of=f.hardware(gpus=1),
)
START_UP = f.node(
    series=f.samples(
        600,
        host__cpu_busy_pct=np.where(TICKS < 400, 99.0, 40.0),
        gpu0__busy_pct=np.where(TICKS < 400, 0.0, 95.0),
    ),
    step_tables=[f.steps(200, start=400)],
    of=f.hardware(gpus=1),
)
AFTERWARDS = f.node(
    series=f.samples(
        600,
        host__cpu_busy_pct=np.where(TICKS > 200, 99.0, 40.0),
        gpu0__busy_pct=np.where(TICKS > 200, 0.0, 95.0),
    ),
    step_tables=[f.steps(200)],
    of=f.hardware(gpus=1),
)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(host(97.0, share(0.6))), "fired", id="full cores, idle GPU"),
        pytest.param(f.run(host(97.0, share(0.51))), "fired", id="just above half the time"),
        pytest.param(f.run(host(97.0, share(0.5))), "passed", id="half the time, not more"),
        pytest.param(f.run(host(90.0, share(0.8))), "passed", id="cores at the boundary"),
        pytest.param(f.run(host(97.0, 10.0)), "passed", id="GPU at the boundary"),
        pytest.param(f.run(host(50.0, share(0.8))), "passed", id="half of the cores busy"),
        pytest.param(f.run(host(15.0, share(0.8), **ONE_CORE)), "passed", id="one busy core"),
        pytest.param(f.run(host(97.0, 95.0)), "passed", id="full cores, full GPU"),
        pytest.param(f.run(host(97.0, share(0.8), 0.0)), "fired", id="another GPU never used"),
        pytest.param(f.run(host(97.0, 95.0, 0.0)), "passed", id="only the unused one idles"),
        pytest.param(f.run(host(97.0, 0.0)), "not_applicable", id="GPU never used"),
        pytest.param(f.run(host(97.0)), "not_applicable", id="no GPU"),
        pytest.param(f.run(), "not_applicable", id="nothing at all"),
        pytest.param(f.run(START_UP), "passed", id="start-up is left out"),
        pytest.param(f.run(AFTERWARDS), "passed", id="after the last step is left out"),
        pytest.param(f.run(SINGLE_CORES), "fired", id="from the single cores"),
        pytest.param(f.run(host(GAPS, share(0.6))), "fired", id="gaps are unknown"),
        pytest.param(f.run(host(f.GAP, share(0.6))), "insufficient_data", id="no CPU"),
        pytest.param(f.run(host(97.0, f.GAP)), "insufficient_data", id="GPU unknown"),
        pytest.param(
            f.run(host(97.0, share(0.8)), duration=4000), "fired", id="600 s of a long run"
        ),
        pytest.param(
            f.run(host(97.0, share(0.8)), host(40.0, 95.0, key="n2")),
            "passed",
            id="two nodes, 40 % of their time",
        ),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_it_judges_the_cores_that_the_run_was_given_and_not_the_machine() -> None:
    own = 3.9 * TICKS
    node = host(20.0, share(0.8), tree__cpu_seconds_total=own)
    part = f.node(
        series=node.samples, step_tables=[node.steps], of=f.hardware(gpus=1, effective_cpus=4.0)
    )
    assert judged(RULE, f.run(part)).verdict.state == "fired"


def test_it_shows_when_and_counts_each_second_once() -> None:
    numbers = judged(RULE, f.run(host(97.0, share(0.6)))).numbers
    assert numbers.values["bottleneck_seconds"] == 360
    assert numbers.values["seen_seconds"] == 600
    assert [w.end_seconds - w.start_seconds for w in numbers.windows] == [60] * 6


def test_a_gpu_that_was_never_used_doesnt_wait_for_the_cores() -> None:
    one, with_unused = (judged(RULE, f.run(host(97.0, share(0.8), *more))) for more in ((), (0.0,)))
    assert one.verdict.summary == with_unused.verdict.summary
    assert with_unused.verdict.claimed_seconds_high == one.verdict.claimed_seconds_high / 2


def test_a_running_run_that_has_not_used_its_gpu_yet_is_not_judged() -> None:
    live = replace(f.run(host(97.0, 0.0)), final=False)
    assert judged(RULE, live).verdict.state == "insufficient_data"


def test_it_answers_to_the_names_of_sagemaker() -> None:
    frame = f.run(host(85.0, share(0.4)))
    values = {"cpu_threshold": 80, "threshold": 30, "gpu_threshold": 5}
    assert judged(RULE, frame, values).verdict.state == "fired"


def set_up(world: World, factor: float) -> None:
    """Keep the cores above 90 % and the GPUs below 10 % for more than half of the time."""
    bottleneck(world, factor, "host.cpu_busy_pct", threshold=90.0, loaded=97.0)


SCENARIO = Scenario(RULE, set_up, (*confounders.ON_GPU, *confounders.DATA))
