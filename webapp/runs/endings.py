"""Checks and stores what agents report about the end and the stages of a session."""

from __future__ import annotations

import re
from typing import Any

from trimtab.wire import Event, Segment

from webapp.runs.models import Session

MOST_LINES, MOST_LINE_CHARS, MOST_CHARS = 50, 2_000, 64 * 1024
MOST_STAGES = 200
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
)
"""ECMA-48: control sequences, strings (titles, links), other escapes."""
_MOST_BYTES = 2**60
_COUNTS = {"signal": 200, "oom_kills": 10**9, "oom_process_bytes": _MOST_BYTES}
_SIZES = {"memory_bytes": _MOST_BYTES, "memory_limit_bytes": _MOST_BYTES}


def ending(data: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of `session_end` that are stored as they are; unknown ones are left out."""
    facts: dict[str, Any] = {
        name: data[name]
        for name, most in (_COUNTS | _SIZES).items()
        if _is_count(data.get(name)) and data[name] <= most
    }
    if data.get("oom_scope") in ("container", "machine"):
        facts["oom_scope"] = data["oom_scope"]
    if isinstance(data.get("oom_process"), str):
        facts["oom_process"] = data["oom_process"][:120]
    return facts


def keep_lines(session: Session, segment: Segment) -> None:
    """Keep the last lines of standard error, without control characters, in their order."""
    sent = [(e.data.get("number"), e.data.get("text")) for e in segment.events]
    kinds = [event.kind for event in segment.events]
    lines = [
        (number, _printable(text)[:MOST_LINE_CHARS])
        for (number, text), kind in zip(sent, kinds, strict=True)
        if kind == "stderr" and _is_count(number) and isinstance(text, str)
    ]
    if lines:
        texts = [text for _, text in sorted(lines)][-MOST_LINES:]
        while sum(map(len, texts)) > MOST_CHARS:
            texts.pop(0)
        session.stderr = texts


def keep_stages(session: Session, segment: Segment) -> None:
    """Keep each stage once, by its number; segments may arrive in any order."""
    stages = {stage["number"]: stage for stage in session.stages}
    for event in segment.events:
        if event.kind in ("stage_begin", "stage_end") and _is_count(event.data.get("number")):
            known = stages.get(event.data["number"], {})
            stages[event.data["number"]] = known | _stage(event, segment.start_ms + event.time_ms)
    session.stages = sorted(stages.values(), key=lambda stage: stage["began_ms"])[:MOST_STAGES]


def _stage(event: Event, at_ms: int) -> dict[str, Any]:
    lasted_ms, ago_ms = _ms(event, "seconds"), _ms(event, "ago_seconds")
    stage: dict[str, Any] = {
        "number": event.data["number"],
        "name": _printable(str(event.data.get("name") or ""))[:120],
        "began_ms": at_ms - ago_ms - lasted_ms,
    }
    return stage | ({"ended_ms": at_ms - ago_ms} if event.kind == "stage_end" else {})


def _ms(event: Event, name: str) -> int:
    value = event.data.get(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return round(1000 * min(max(value, 0), 10**9)) if is_number and value is not None else 0


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _printable(text: str) -> str:
    return "".join(c for c in _ESCAPES.sub("", text) if c == "\t" or c.isprintable())
