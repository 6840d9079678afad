"""The agent's side of a profile on demand: requests it from the hook and collects the trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trimtab.run_folder import PROFILE_NAME, TRACE_SUFFIX
from trimtab.spool import Spool

KIND = "profile"


def request(folder: Path, asked: dict[str, Any]) -> None:
    """Request a profile (`directives.profile_request`). A new request replaces the last one."""
    draft = folder / f"{PROFILE_NAME}.draft"
    draft.write_text(json.dumps(asked))
    draft.replace(folder / PROFILE_NAME)


def any_ready(folder: Path) -> bool:
    return any(folder.glob(f"*{TRACE_SUFFIX}"))


def collect(folder: Path, spool: Spool, session: str) -> list[str]:
    """Move finished traces into the spool. Returns what went wrong."""
    problems = []
    for trace in folder.glob(f"*{TRACE_SUFFIX}"):
        try:
            kept = spool.artefacts.add(session, KIND, trace, trace.name)
        except OSError as error:
            kept = False
            problems.append(f"the profile {trace.name} couldn't be kept: {error.strerror}")
        if not kept:
            trace.unlink(missing_ok=True)
    return problems
