"""The small files in the run's folder by which agent, script and hook exchange data."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PROFILE_NAME = "profile.json"
"""The profile that the agent requests from the hook."""
TRACE_SUFFIX = ".trace.json.gz"
_RUN_NAME = "run.json"
_PARAMETERS_SUFFIX = ".told.json"
_MOST_BYTES = 256 * 1024


@dataclass(frozen=True)
class CurrentRun:
    """The run that this process belongs to; empty outside of `trimtab run`."""

    id: str = ""
    url: str = ""
    """The URL of its page; empty if no service is set."""
    session: str = ""
    """The session as the agent describes it to MLflow's clients, as JSON."""

    def __bool__(self) -> bool:
        return bool(self.id)


def publish(folder: Path, run: CurrentRun) -> None:
    """Write, on the agent's side, what is known of the run."""
    _write(folder / _RUN_NAME, asdict(run))


def read_published_run(folder: Path) -> CurrentRun:
    """Read, on the other side, what the agent wrote. Raises OSError or ValueError."""
    document = json.loads((folder / _RUN_NAME).read_text())
    return CurrentRun(*(str(document.get(name, "")) for name in ("id", "url", "session")))


def write_parameters(folder: Path, parameters: Mapping[str, Any]) -> None:
    """Replace what this process wrote before. Raises OSError, TypeError or ValueError."""
    text = json.dumps(parameters)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"the parameters take {len(text)} bytes, more than {_MOST_BYTES}")
    _write(folder / f"{os.getpid()}{_PARAMETERS_SUFFIX}", json.loads(text))


class ScriptParameters:
    """Parameters that scripts set, on the agent's side."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen_ns: dict[str, int] = {}

    def read_changes(self) -> dict[str, Any]:
        """Return the parameters from files that changed since the last call."""
        parameters: dict[str, Any] = {}
        for path in sorted(self._folder.glob(f"*{_PARAMETERS_SUFFIX}")):
            with suppress(OSError, ValueError):
                changed_ns = path.stat().st_mtime_ns
                if self._seen_ns.get(path.name) != changed_ns:
                    self._seen_ns[path.name] = changed_ns
                    parameters |= json.loads(path.read_text())
        return parameters


def _write(path: Path, document: Mapping[str, Any]) -> None:
    draft = path.with_suffix(f".{os.getpid()}.draft")
    draft.write_text(json.dumps(document))
    draft.replace(path)
