"""The agent that a program runs under: what it says of itself in a tag of the run.

`trimtab run` puts the tag into MLFLOW_RUN_CONTEXT, which clients send with each run that they
begin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from trimtab.wire import LIMITS
from trimtab.wire.limits import is_storable

TAG = "trimtab.agent"
_TEXTS = ("machine", "boot", "job")
_WHOLE = {"attempt": 1_000_000, "started_at_ns": 2**62, "started_mono_ns": 2**62}


def session_of(tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the agent's session; empty if there is none, or it isn't said in a form that is
    known.
    """
    try:
        said = json.loads(tags.get(TAG, ""))
        run, session = str(UUID(said["run"])), str(UUID(said["session"]))
        texts = {name: said[name] for name in _TEXTS}
        whole = {name: said[name] for name in _WHOLE}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    if not all(map(_is_text, texts.values())):
        return {}
    if not all(_is_within(whole[name], most) for name, most in _WHOLE.items()):
        return {}
    return {"run": run, "session": session, **texts, **whole}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LIMITS.name_chars and is_storable(value)


def _is_within(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
