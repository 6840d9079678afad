"""`host_memory_leak`: memory that grows without end, and memory that only looks like it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rules.frame import NodeFrame
from rules.rule import Verdict
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "host_memory_leak"
MB, GIB = 1e6, f.GIB
Floats = NDArray[np.float64]
Growth = Callable[[Floats], Floats]


def leak(bytes_per_second: float) -> Growth:
    return lambda times: bytes_per_second * times


def saturating(size: float, seconds: float) -> Growth:
    return lambda times: size * (1 - np.exp(-times / seconds))


def node(
    growth: Growth,
    seconds: float = 180,
    resolution: float = 1.0,
    steps: bool = True,
    epochs: tuple[float, ...] = (),
    key: str = "n1",
    memory_gib: float = 32,
    seed: int = 1,
    **more: Any,
) -> NodeFrame:
    """Return a process of 2 GiB, up and down by 20 MB, that grows from its first step at 5 s on."""
    random = np.random.default_rng(seed)
    times = np.arange(0, seconds, resolution)
    own = 2 * GIB + growth(np.maximum(times - 5, 0)) + random.normal(0, 20 * MB, len(times))
    series = {"tree__rss_bytes": own, "host__memory_used_bytes": own + 1.5 * GIB} | more
    table = f.samples(seconds, resolution, **series)
    loop = [f.steps(int(seconds - 5), start=5)] if steps else []
    events = [(at, "epoch", {"number": number}) for number, at in enumerate(epochs)]
    return f.node(key, table, loop, events, of=f.hardware(memory_gib=memory_gib))


def verdict(of: NodeFrame, *others: NodeFrame, seconds: float, resolution: float = 1.0) -> Verdict:
    frame = f.run(of, *others, duration=seconds, resolution=resolution)
    return judged(RULE, replace(frame, final=False)).verdict


@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("seed", range(4))
def test_ten_megabytes_a_second_are_found_within_three_minutes(
    seed: int, resolution: float, steps: bool
) -> None:
    found = verdict(
        node(leak(10 * MB), resolution=resolution, steps=steps, seed=seed),
        seconds=180,
        resolution=resolution,
    )
    assert found.state == "fired"
    assert "MiB/s" in found.summary


@pytest.mark.parametrize("seconds", [180, 600, 3600, 20_000])
@pytest.mark.parametrize(
    "growth",
    [
        pytest.param(leak(0), id="constant"),
        pytest.param(leak(-0.05 * MB), id="shrinks"),
        pytest.param(saturating(3 * GIB, 60), id="a cache that fills in a minute"),
        pytest.param(saturating(3 * GIB, 300), id="a cache that fills in five minutes"),
        pytest.param(lambda t: 3 * GIB * (t > 100), id="one jump"),
        pytest.param(lambda t: 2 * GIB * (t % 60) / 60, id="up and down with each minute"),
        pytest.param(lambda t: np.minimum(t, 60) * 30 * MB, id="grows for a minute"),
        pytest.param(leak(100), id="would take years"),
    ],
)
def test_what_does_not_grow_without_end_passes(growth: Growth, seconds: float) -> None:
    assert verdict(node(growth, seconds), seconds=seconds).state == "passed"


@pytest.mark.parametrize("resolution", [0.5, 1.0, 10.0])
def test_a_leak_that_grows_with_each_step_is_found_while_steps_become_slower(
    resolution: float,
) -> None:
    """2 MB a step, of which there are ten a second and in the end only four."""
    durations = np.linspace(0.1, 0.25, 2000)
    ends = 5 + np.cumsum(durations)
    loop = f.steps(2000).assign(
        duration_seconds=durations, start_seconds=np.concatenate([[5], ends[:-1]])
    )
    grows: Growth = lambda t: 2 * MB * np.searchsorted(ends, t + 5)  # noqa: E731
    slows = replace(node(grows, 350, resolution, memory_gib=64), steps=loop)
    found = verdict(slows, seconds=350, resolution=resolution)
    assert found.state == "fired", found.summary
    rate = re.search(r"([\d.]+) MiB/s", found.summary)
    assert rate is not None
    assert float(rate[1]) == pytest.approx(2 * MB / 0.215 / 2**20, rel=0.1)


@pytest.mark.parametrize("seconds", [180, 400, 590])
def test_a_first_epoch_that_fills_a_cache_at_a_constant_rate_never_fires(seconds: float) -> None:
    growth: Growth = lambda t: np.minimum(t, 600) * 10 * MB  # noqa: E731
    early = node(growth, seconds, epochs=(5.0,))
    assert verdict(early, seconds=seconds).state == "insufficient_data"
    later = node(growth, 1500, epochs=(5.0, 605.0, 1205.0))
    assert verdict(later, seconds=1500).state == "passed"


def test_a_leak_is_found_in_the_first_epoch_if_it_is_urgent_and_in_the_second_anyway() -> None:
    urgent = node(leak(100 * MB), epochs=(5.0,))
    assert verdict(urgent, seconds=180).state == "fired"
    slow = node(leak(10 * MB), 500, epochs=(5.0, 300.0))
    assert verdict(slow, seconds=500).state == "fired"


def test_mapped_files_and_data_that_is_being_loaded_are_no_leak() -> None:
    mapped = node(leak(10 * MB), host__memory_used_bytes=4.0 * GIB)
    assert verdict(mapped, seconds=180).state == "passed"
    read = np.arange(180) * 12 * MB
    loads = node(leak(10 * MB), steps=False, tree__requested_bytes_total=read)
    assert verdict(loads, seconds=180).state == "passed"
    reads_in_steps = node(leak(10 * MB), tree__requested_bytes_total=read)
    assert verdict(reads_in_steps, seconds=180).state == "fired"


def test_neighbours_that_take_memory_make_no_leak() -> None:
    others = 4 * GIB + np.arange(600) * 20 * MB
    beside = node(leak(0), 600, host__memory_used_bytes=others)
    assert verdict(beside, seconds=600).state == "passed"


def test_it_says_when_the_limit_of_the_cgroup_is_reached() -> None:
    """4 GiB, of which the process has 3.7 after 180 s."""
    found = verdict(node(leak(10 * MB), memory_gib=4), seconds=180)
    assert found.severity == "high"
    assert "the limit of 4.0 GiB is reached in 38 s" in found.summary


def test_without_the_processes_memory_or_too_early_it_says_what_is_missing() -> None:
    early = verdict(node(leak(10 * MB), 140), seconds=140)
    assert early.state == "insufficient_data"
    assert "1 m 45 s of the processes' memory after settling, 2 m 0 s needed" in early.summary
    unknown = f.node(series=f.samples(600, host__memory_used_bytes=4e9))
    assert verdict(unknown, seconds=600).state == "insufficient_data"


@pytest.mark.parametrize("gap", [slice(60, 100), slice(40, 150, 3)])
def test_gaps_in_the_samples_change_nothing(gap: slice) -> None:
    for growth, state in ((leak(10 * MB), "fired"), (leak(0), "passed")):
        whole = node(growth, 200)
        samples = whole.samples.copy()
        samples.iloc[gap] = f.GAP
        found = verdict(replace(whole, samples=samples), seconds=200)
        assert found.state == state


def test_it_names_the_node_that_leaks() -> None:
    found = verdict(node(leak(0)), node(leak(10 * MB), key="n2"), seconds=180)
    assert found.state == "fired"
    assert "on n2" in found.summary


def test_growth_towards_an_unknown_limit_is_not_judged() -> None:
    found = verdict(node(leak(10 * MB), memory_gib=0), seconds=180)
    assert found.state == "insufficient_data"
    assert "memory limit of n1" in found.summary


def set_up(world: World, factor: float) -> None:
    """Fill memory within a day; in a near miss the growth is as fast, and slows down."""
    world.seconds = max(world.seconds, 2400.0)
    free = world.memory_gib * GIB * (0.97 - world.host_memory_pct / 100)
    rate = factor * max(free / 86_400, 600 * MB / world.seconds)

    def change(node: Node) -> None:
        since = np.maximum(node.times - world.begin_seconds, 0)
        slows = world.seconds / (6 * (1 - factor)) if factor < 1 else np.inf
        grown = rate * (since if factor > 1 else slows * (1 - np.exp(-since / slows)))
        noise = world.noise(len(node.times), 3 * MB)
        node.series["tree.rss_bytes"] = 2 * GIB + grown + noise
        node.series["host.memory_used_bytes"] = node.series["host.memory_used_bytes"] + grown

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, confounders.SIMPLE)
