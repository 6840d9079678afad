"""The driver is asked as seldom as the schedule says, and nothing is lost in between."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trimtab.draft import SegmentDraft
from trimtab.loops import TrainingLoops
from trimtab.sampler import Sampler
from trimtab.sources.gpu import busy, energy, nvml, schedule
from trimtab.sources.procfile import Reading, SeriesSpan
from trimtab.timeline import SessionTimeline

HOUR = 3600.0
H200_MS = {
    "power": (0.06, 0.0),
    "reasons": (0.06, 0.0),
    "rates": (0.01, 1.0),
    "memory": (0.1, 2.0),
    "sm_clock": (0.06, 2.0),
    "gpm": (2.2, 5.0),
    "samples": (2.5, 10.0),
    "energy": (3.3, 30.0),
    "throttled": (1.1, 10.0),
    "nvlink": (0.17, 10.0),
    "processes": (0.2, 10.0),
    "replays": (0.6, 60.0),
}
"""The ms of CPU that the queries take on an H200, and how often they are needed."""


@dataclass
class Clock:
    """Stands for the module `time` in what is tested."""

    now: float = 1000.0
    cpu: float = 0.0
    wall_ahead: float = 1.7e9

    def monotonic(self) -> float:
        return self.now

    def monotonic_ns(self) -> int:
        return round(self.now * 1e9)

    def time_ns(self) -> int:
        return round((self.now + self.wall_ahead) * 1e9)

    def thread_time(self) -> float:
        return self.cpu


@contextmanager
def clocked(**answers: object) -> Iterator[Clock]:
    """`answers`: functions that stand for those of `nvml`."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        for module in (busy, energy, schedule):
            patch.setattr(module, "time", clock)
        for name, function in answers.items():
            patch.setattr(nvml, name, function)
        yield clock


def ticks(rng: random.Random, seconds: float, longest: float) -> Iterator[float]:
    """Yield the pauses between ticks: mostly half a second, now and then longer."""
    while seconds > 0:
        pause = rng.choice((0.5, 0.5, 0.5, 0.5, rng.uniform(0.05, longest)))
        seconds -= pause
        yield pause


def priced(clock: Clock, prices_ms: dict[str, tuple[float, float]], slower: float = 1.0):
    """Queries that take CPU time of the clock, and how often each was asked."""
    asked: dict[str, list[float]] = {name: [] for name in prices_ms}

    def query(name: str, price_ms: float, every: float) -> schedule.Query:
        def ask() -> Reading:
            clock.cpu += slower * price_ms / 1000
            asked[name].append(clock.now)
            return {}

        most = 10.0 if name == "samples" else float("inf")
        in_arrears = name in ("samples", "gpm", "throttled", "nvlink")
        return schedule.Query(name, ask, every, most, in_arrears)

    return [query(name, *each) for name, each in prices_ms.items()], asked


def drive(plan: schedule.Schedule, clock: Clock, pauses: Iterator[float]) -> dict[str, float]:
    """Returns the shortest pause that was planned for each query."""
    planned: dict[str, float] = {}
    for pause in pauses:
        clock.now += pause
        for query in plan.due_queries(clock.now):
            query.answer(clock.now)
        for query in plan.queries:
            shortest = min(query.planned_seconds, planned.get(query.name, float("inf")))
            planned[query.name] = shortest
    return planned


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.2, 1.0, 10.0]))
def test_no_query_is_asked_more_often_than_planned_and_all_stay_within_the_budget(seed, slower):
    told: list[dict] = []
    with clocked() as clock:
        queries, asked = priced(clock, H200_MS, slower)
        plan = schedule.Schedule(queries, told.append)
        drive(plan, clock, iter([0.5] * 8))
        began, used = clock.now, clock.cpu
        planned = drive(plan, clock, ticks(random.Random(seed), HOUR, 3.0))
        passed = clock.now - began
    assert (clock.cpu - used) / passed <= schedule.BUDGET
    for query in queries:
        count = sum(at > began for at in asked[query.name])
        assert count <= passed / max(planned[query.name], 0.05) + 1
        assert query.planned_seconds >= query.every_seconds
    assert bool(told) == (slower > 0.5)


def test_what_became_rarer_is_told_and_what_would_lose_something_is_left_out():
    told: list[dict] = []
    with clocked() as clock:
        queries, asked = priced(clock, H200_MS, slower=10.0)
        plan = schedule.Schedule(queries, told.append)
        drive(plan, clock, iter([0.5] * 7200))
    assert "samples not at all" in told[0]["rarer"]
    assert float(told[0]["rarer"].split("gpm every ")[1].split()[0]) > 50
    assert len(asked["samples"]) == 4, "only while everything was measured"
    assert told[0]["cpu_ms_a_second"] <= 1.0


def test_at_an_h200s_prices_power_and_throttling_are_still_seen_at_each_tick():
    with clocked() as clock:
        queries, asked = priced(clock, H200_MS)
        drive(schedule.Schedule(queries, lambda _: None), clock, iter([0.5] * 2000))
    assert len(asked["power"]) == len(asked["reasons"]) == 2000
    assert len(asked["samples"]) >= 100
    assert len(asked["gpm"]) >= 100


class SampleBuffer:
    """The driver's ring of utilisation samples: one every 0.2 s, the last 71 of them."""

    def __init__(self, rng: random.Random) -> None:
        self.clock = Clock()
        self._rng = rng
        self.taken: list[tuple[int, int]] = []

    def later_than(self, _handle: object, after_us: int) -> list[tuple[int, int]]:
        now_us = self.clock.time_ns() // 1000
        last_us = self.taken[-1][0] if self.taken else now_us - 3_000_000
        while last_us + 200_000 <= now_us:
            last_us += 200_000
            self.taken.append((last_us, self._rng.randint(0, 100)))
        return [sample for sample in self.taken[-71:] if sample[0] > after_us]


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32))
def test_no_utilisation_sample_is_lost_or_doubled_in_an_hour_of_irregular_ticks(seed):
    rng = random.Random(seed)
    buffer, spans = SampleBuffer(rng), []
    with clocked(busy_samples=buffer.later_than) as clock:
        buffer.clock = clock
        query = schedule.Query("busy_pct", busy.BusySamples(None, spans).read, 10.0, 10.0)
        drive(schedule.Schedule([query], print), clock, ticks(rng, HOUR, 3.0))
        query.answer(clock.now)
    seen = [(round(span.until_ns / 1000 + clock.wall_ahead * 1e6), span.last) for span in spans]
    first = next(i for i, sample in enumerate(buffer.taken) if abs(sample[0] - seen[0][0]) < 5)
    assert [value for _, value in seen] == [value for _, value in buffer.taken[first:]]
    assert all(abs(a.until_ns - b.since_ns) < 5000 for a, b in pairwise(spans))
    assert query.asked <= HOUR / 10 + 8


def test_a_clock_that_is_set_back_costs_no_samples():
    buffer, spans = SampleBuffer(random.Random(1)), []
    with clocked(busy_samples=buffer.later_than) as clock:
        buffer.clock = clock
        samples = busy.BusySamples(None, spans)
        for minute in range(4):
            if minute == 2:
                clock.wall_ahead -= HOUR
                buffer.taken.clear()
            clock.now += 8.0
            samples.read()
    assert len(spans) > 60
    assert all(span.until_ns <= clock.monotonic_ns() for span in spans)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([45.0, 600.0, HOUR]))
def test_the_energy_of_a_run_is_that_of_the_counter(seed, seconds):
    """The power wanders, and the counter follows it exactly."""
    rng = random.Random(seed)
    watts, joules = 300.0, 5e6

    with clocked(
        power_milliwatts=lambda _: round(watts * 1000),
        energy_millijoules=lambda _: round(joules * 1000),
    ) as clock:
        each = energy.Energy(None)
        queries = [schedule.Query("energy", each.count, 30.0), schedule.Query("power", each.power)]
        plan = schedule.Schedule(queries, print)
        began, shown = joules, []
        for pause in ticks(rng, seconds, 3.0):
            before = watts
            watts = min(700.0, max(80.0, watts + rng.uniform(-80, 80)))
            joules += pause * (before + watts) / 2
            clock.now += pause
            if len(shown) == 0:
                began = joules
            for query in plan.due_queries(clock.now):
                query.answer(clock.now)
            shown.append(each.power()["energy_joules_total"])
        each.count()
        shown.append(each.power()["energy_joules_total"])
    assert shown == sorted(shown)
    assert shown[-1] - shown[0] == pytest.approx(joules - began, rel=1e-3, abs=2)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 3000), min_size=2, max_size=60),
    st.lists(st.tuples(st.integers(1, 8000), st.integers(0, 100)), min_size=1, max_size=40),
)
def test_means_of_spans_keep_their_integral_whatever_the_ticks(pauses_ms, spans_ms):
    draft, at = SegmentDraft(0, 500), 0
    for pause in pauses_ms:
        at += pause
        draft.add(at * 10**6, {"host.x_count": 0})
    until, integral = 0, 0.0
    for lasts, value in spans_ms:
        since, until = until, min(at, until + lasts)
        integral += value * (until - since)
        if until > since:
            draft.fill(SeriesSpan("gpu0.sm_active_pct", since * 10**6, until * 10**6, value, value))
    (block,) = draft.blocks()
    column = block.columns.get("gpu0.sm_active_pct", [None] * len(pauses_ms))
    ends = [0, *block.times_ms]
    known = sum(
        value * (min(end, until) - start)
        for value, (start, end) in zip(column, pairwise(ends), strict=True)
        if value is not None
    )
    assert known == pytest.approx(integral, abs=0.051 * at + 1)


def test_a_counter_that_is_read_rarely_grows_evenly_in_between():
    draft = SegmentDraft(0, 500)
    for second in range(1, 11):
        draft.add(second * 10**9, {"gpu0.power_watts": 300})
    draft.fill(
        SeriesSpan("gpu0.throttled_thermal_ns_total", 10**9, 9 * 10**9, 5 * 10**9, 9 * 10**9)
    )
    (block,) = draft.blocks()
    grown = block.columns["gpu0.throttled_thermal_ns_total"]
    assert grown == [5 * 10**9 + n * 5 * 10**8 for n in range(9)] + [None]


class Late:
    """A source that answers for the last tenth of a second and more, half a second late."""

    def __init__(self, timeline: SessionTimeline) -> None:
        self._timeline = timeline
        self._asked_ns: list[int] = []
        self._until_ns = self._timeline.started_mono_ns
        self.has_settled = False

    def read(self) -> Reading:
        self._asked_ns.append(self._timeline.started_mono_ns + self._timeline.now_ns())
        return {"gpu0.power_watts": 1}

    def settle(self) -> None:
        self.has_settled = True

    @property
    def answered_until_ns(self) -> float:
        return self._until_ns

    def take_spans(self) -> list[SeriesSpan]:
        answered = self._asked_ns[-1 if self.has_settled else -6 :][0]
        since, self._until_ns = self._until_ns, max(self._until_ns, answered)
        value = len(self._asked_ns)
        return [SeriesSpan("gpu0.sm_active_pct", since, self._until_ns, value, value)]


def test_a_segment_waits_for_answers_about_its_last_ticks(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("trimtab.sampler.SEAL_SECONDS", 1.0)

    timeline, sealed = SessionTimeline(), []
    late = Late(timeline)
    loops = TrainingLoops(tmp_path, timeline)
    sampler = Sampler([late], loops, timeline, 0.1, lambda d, *_: sealed.append(d), late)
    sampler.start()
    time.sleep(2.75)
    sampler.finish([], 2.0)
    columns = [draft.blocks()[0].columns["gpu0.sm_active_pct"] for draft in sealed]
    assert len(columns) == 3
    assert all(None not in column for column in columns)
    assert late.has_settled
