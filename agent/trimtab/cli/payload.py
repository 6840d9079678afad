"""Prints what a run would upload first."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from uuid import uuid4

from trimtab import identity, platforms
from trimtab.declaration import MeasurementSubject, add_git_state, build_declaration
from trimtab.draft import SegmentDraft
from trimtab.options import Options
from trimtab.sources import Gpus, SeriesSource, machine_sources
from trimtab.timeline import SessionTimeline
from trimtab.wire import Gpu, Segment, encode_declaration, encode_segment

_GPU_SECONDS = 3.0


def show(words: Sequence[str], environment: dict[str, str], options: Options) -> None:
    """Print the declaration, and a segment with two samples of the machine."""
    target, session, timeline = MeasurementSubject(words, environment), uuid4(), SessionTimeline()
    declaration = build_declaration(
        session, identity.run_id(options.server, environment), target, options
    )
    add_git_state(declaration, target.folder)
    with suppress(platforms.MetadataError):
        if options.ask_metadata and (instance := platforms.detect(environment)):
            platforms.fill_node_facts(declaration.node, instance, options.node)
    draft = SegmentDraft(0, round(options.interval_seconds * 1000))
    declaration.node.gpus = _sample(draft, timeline, environment)
    segment = Segment(
        run_id=declaration.run_id,
        job=declaration.job,
        attempt=declaration.attempt,
        machine_id=declaration.node.machine_id,
        clock=timeline.session_clock(session),
        seq=0,
        start_ms=0,
        duration_ms=timeline.now_ns() // 1_000_000,
        resolution_ms=draft.resolution_ms,
        blocks=draft.blocks(),
    )
    _print("PUT /api/v1/runs/{run}", encode_declaration(declaration))
    _print("PUT /api/v1/runs/{run}/segments/{session}/{seq}", encode_segment(segment))


def _sample(
    draft: SegmentDraft, timeline: SessionTimeline, environment: dict[str, str]
) -> list[Gpu]:
    """Takes two samples, because rates need two; the GPUs are listed before."""
    sources, gpus = machine_sources(), list[Gpu]()
    with suppress(OSError):
        driver = Gpus(lambda kind, data: None, gpus.extend, environment)
        sources.append(driver)
        _wait_for(driver, gpus)
    for _ in range(2):
        reading = {}
        for source in sources:
            reading.update(_read(source))
        draft.add(timeline.now_ns(), reading)
        time.sleep(0.2)
    return gpus


def _wait_for(driver: Gpus, gpus: list[Gpu]) -> None:
    until = time.monotonic() + _GPU_SECONDS
    while not gpus and not driver.has_none and time.monotonic() < until:
        driver.read()
        time.sleep(0.05)


def _read(source: SeriesSource) -> dict[str, int | float | None]:
    with suppress(OSError, ValueError, IndexError, KeyError):
        return source.read()
    return {}


def _print(request: str, body: bytes) -> None:
    print(f"# {request}, {len(body)} bytes")
    print(json.dumps(json.loads(gzip.decompress(body)), indent=2))
