"""Writes metrics as segments of the run, which everything else reads.

Each request is a segment, or several where its times are far apart. System metrics become series;
all others are events. A program inside `trimtab run` writes to the agent's own session, and the
agent measures the machine: then system metrics add nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from trimtab.wire import FIRST_ADDED, Block, Event, Segment, SessionClock, encode_segment

from advisor import mlflow_names
from webapp.accounts.models import Token
from webapp.ingest.upload import Upload
from webapp.ingest.write import write_segments
from webapp.mlflow_api import system_metrics
from webapp.mlflow_api.errors import invalid_parameter
from webapp.mlflow_api.models import Feed, Logged, TrackedRun
from webapp.mlflow_api.system_metrics import Sample

STRETCH_MS = 12 * 3_600_000
"""The longest time of a segment."""
MOST_STRETCHES, MOST_FEEDS = 100, 256
"""The most segments of one request, and the most feeds of a run."""
OLDEST_MS = 1_000 * 86_400_000
"""The longest time before now. A session that began earlier would be refused, so it begins now."""
LATEST_MS = 3_600_000
"""The longest time ahead of our clock. What is later has no time that means anything, so it counts
as now."""


@dataclass(frozen=True)
class Metric:
    key: str
    value: float
    timestamp_ms: int
    step: int


@dataclass(frozen=True)
class Draft:
    """A segment that is to be stored, with its number."""

    feed: Feed
    logged: Logged
    metrics: tuple[Metric, ...]
    ending: str = ""
    """The end state of the session; empty if it continues."""
    ended_ms: int = 0


def open_feed(tracked: TrackedRun, machine_id: str, node: str = "") -> Feed:
    """Return the feed of a node, new if none is open. Call with the run locked.

    The run's machine is the first node that is named.
    """
    feeds = list(tracked.feeds.order_by("pk"))
    going = [feed for feed in feeds if not feed.is_ended]
    for feed in going:
        is_unnamed = not feed.node and feed.sampled_ms is None
        if not node or feed.node == node or is_unnamed or tracked.agent:
            feed.node = feed.node or node
            return feed
    if tracked.agent:
        return _within_agent(tracked)
    if len(feeds) >= MOST_FEEDS:
        raise invalid_parameter(
            f"The run has {MOST_FEEDS} nodes or was started that often, the maximum."
        )
    is_first = not any(feed.node == node for feed in feeds)
    started_ms = _began_ms(tracked) if is_first else time.time_ns() // 1_000_000
    is_other = node and any(feed.node not in ("", node) for feed in feeds)
    return Feed.objects.create(
        tracked=tracked,
        session_id=uuid5(tracked.pk, f"mlflow/{node}/{len(feeds)}"),
        node=node,
        machine_id=f"{machine_id}/{node}"[-120:] if is_other else machine_id,
        started_at_ns=started_ms * 1_000_000,
    )


def _within_agent(tracked: TrackedRun) -> Feed:
    agent = tracked.agent
    return Feed.objects.get_or_create(
        tracked=tracked,
        session_id=UUID(agent["session"]),
        defaults={
            "machine_id": agent["machine"],
            "attempt": agent["attempt"],
            "started_at_ns": agent["started_at_ns"],
            "next_seq": FIRST_ADDED,
        },
    )[0]


def drafts(tracked: TrackedRun, feed: Feed, metrics: Iterable[Metric]) -> list[Draft]:
    """Return numbered segments for metrics of the feed's node. Call with the run locked."""
    stretches: dict[int, list[Metric]] = defaultdict(list)
    for metric in metrics:
        stretches[_since_ms(feed, metric.timestamp_ms) // STRETCH_MS].append(metric)
    if len(stretches) > MOST_STRETCHES:
        days = MOST_STRETCHES * STRETCH_MS // 86_400_000
        raise invalid_parameter(f"Metrics of more than {days} days: log them in several batches.")
    found = []
    for _, group in sorted(stretches.items()):
        _follow_samples(feed, group)
        found.append(Draft(feed, _logged(feed, group), tuple(group)))
    return found


def end_session(feed: Feed, state: str, ended_ms: int) -> Draft:
    """Return the last segment of a session. Call with the run locked."""
    feed.is_ended = True
    logged = _numbered(feed, f"end {state} {ended_ms}")
    return Draft(feed, logged, (), state, ended_ms)


def first_segment(feed: Feed) -> Draft:
    """Return an empty segment, with which a session begins. Call with the run locked."""
    return Draft(feed, _numbered(feed, "begin"), ())


def new(tracked: TrackedRun, machine_id: str) -> Draft:
    """Return the first segment of a run that doesn't exist yet. Its rows aren't saved."""
    feed = Feed(
        tracked=tracked,
        session_id=uuid5(tracked.pk, "mlflow//0"),
        machine_id=machine_id,
        started_at_ns=_began_ms(tracked) * 1_000_000,
        next_seq=1,
    )
    return Draft(feed, Logged(seq=0, cadence_ms=mlflow_names.DEFAULT_CADENCE_MS), ())


def send(token: Token, tracked: TrackedRun, parts: Sequence[Draft], job: str = "") -> None:
    """Store the segments. The same again changes nothing.

    Args:
        job: that of a run that doesn't exist yet.

    Raises:
        Problem: 429 beyond a quota.
    """
    segments = [_segment(tracked, draft, job or tracked.run.job.key) for draft in parts]
    uploads = [Upload(token.workspace, s, encode_segment(s), token=token) for s in segments]
    for outcome in write_segments(uploads):
        if isinstance(outcome, Exception):
            raise outcome


def _follow_samples(feed: Feed, metrics: Sequence[Metric]) -> None:
    """Note what system metrics show of the sampling interval and of GPUs."""
    places = [(mlflow_names.place_of(m.key), m.timestamp_ms) for m in metrics]
    times = [at for place, at in places if place is not None]
    if not times:
        return
    between_ms = max(times) - (feed.sampled_ms or 0)
    if feed.sampled_ms is not None and not feed.cadence_ms and between_ms > 0:
        feed.cadence_ms = mlflow_names.cadence_ms(between_ms)
    feed.sampled_ms = max(times)
    gpus = [place.gpu + 1 for place, _ in places if place and place.gpu is not None]
    feed.gpus = max([feed.gpus, *gpus])


def _logged(feed: Feed, metrics: Sequence[Metric]) -> Logged:
    listed = [[m.key, repr(m.value), m.timestamp_ms, m.step] for m in metrics]
    return _numbered(feed, json.dumps(listed))


def _numbered(feed: Feed, content: str) -> Logged:
    """Return the content with its number among the segments of the session; the same for the same
    content.
    """
    digest = hashlib.sha256(content.encode()).hexdigest()[:32]
    cadence_ms = feed.cadence_ms or mlflow_names.DEFAULT_CADENCE_MS
    logged, is_new = Logged.objects.get_or_create(
        feed=feed, digest=digest, defaults={"seq": feed.next_seq, "cadence_ms": cadence_ms}
    )
    if is_new:
        feed.next_seq += 1
    feed.save()
    return logged


def _segment(tracked: TrackedRun, draft: Draft, job: str) -> Segment:
    feed = draft.feed
    samples, events = _sorted_out(feed, draft, is_measured=bool(tracked.agent))
    times = [_since_ms(feed, sample.time_ms) for sample in samples]
    times += [at for at, _ in events]
    start_ms = min(times, default=0)
    blocks = [_block(feed, samples, start_ms)] if samples else []
    return Segment(
        run_id=tracked.pk,
        job=job,
        attempt=feed.attempt,
        machine_id=feed.machine_id,
        clock=SessionClock(
            session_id=feed.session_id,
            boot_id=tracked.agent.get("boot", "mlflow"),
            started_at_ns=feed.started_at_ns,
            started_mono_ns=tracked.agent.get("started_mono_ns", 0),
        ),
        seq=draft.logged.seq,
        start_ms=start_ms,
        duration_ms=max(times, default=0) - start_ms,
        resolution_ms=draft.logged.cadence_ms,
        blocks=blocks,
        events=[Event(at - start_ms, event.kind, event.data) for at, event in events],
    )


def _sorted_out(
    feed: Feed, draft: Draft, is_measured: bool
) -> tuple[list[Sample], list[tuple[int, Event]]]:
    """Return the samples, and the events with their times since the session began."""
    samples, events = [], []
    for metric in draft.metrics:
        place = mlflow_names.place_of(metric.key)
        if place is None:
            at_ms = _since_ms(feed, metric.timestamp_ms)
            events.append((at_ms, Event(0, "metric", _data(metric))))
        elif not is_measured:
            samples.append(system_metrics.sample(place, metric.timestamp_ms, metric.value))
    if draft.ending:
        ended = {"state": draft.ending, "final_seq": draft.logged.seq}
        events.append((_since_ms(feed, draft.ended_ms), Event(0, "session_end", ended)))
    return samples, sorted(events, key=lambda pair: pair[0])


def _block(feed: Feed, samples: Iterable[Sample], start_ms: int) -> Block:
    placed = [Sample(s.series, _since_ms(feed, s.time_ms), s.value) for s in samples]
    block = system_metrics.block(placed, start_ms)
    assert block is not None  # noqa: S101 - there are samples
    return block


def _data(metric: Metric) -> dict[str, float | int | str]:
    """Return the metric with the time as the client said it, which the event's own may differ
    from.
    """
    return {
        "rank": 0,
        "name": metric.key,
        "value": metric.value,
        "step": metric.step,
        "timestamp": metric.timestamp_ms,
    }


def _began_ms(tracked: TrackedRun) -> int:
    """Return when the run began as its client says, if that can be."""
    now_ms = time.time_ns() // 1_000_000
    is_possible = now_ms - OLDEST_MS <= tracked.started_ms <= now_ms + LATEST_MS
    return tracked.started_ms if is_possible else now_ms


def _since_ms(feed: Feed, unix_ms: int) -> int:
    """Return the time since the session began; not negative, and not in the future."""
    latest_ms = time.time_ns() // 1_000_000
    moment_ms = unix_ms if unix_ms <= latest_ms + LATEST_MS else latest_ms
    return max(0, math.ceil(moment_ms - feed.started_at_ns / 1_000_000))
