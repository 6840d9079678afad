"""Folders that users have: an agent's spool, or segments and declarations as files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from trimtab.spool import CAP_BYTES, Spool
from trimtab.wire import decode_segment

from webapp.sample_data.histories import WORKSPACE
from webapp.sample_data.load import DECLARATION_TYPE, SampleUpload, uploads_of
from webapp.sample_data.published import published_runs
from webapp.sample_data.simulation import SimulatedRun

ROOT = Path(__file__).parents[2]


@cache
def simulated() -> list[SimulatedRun]:
    """Return the published pair."""
    return published_runs(WORKSPACE)


def is_declaration(upload: SampleUpload) -> bool:
    return upload.content_type == DECLARATION_TYPE


def as_files(run: SimulatedRun, folder: Path, *, declared: bool = True) -> list[Path]:
    """Writes the run's upload bodies; the segments' files, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    segments = []
    for number, upload in enumerate(uploads_of(run)):
        if is_declaration(upload):
            if declared:
                (folder / f"{number:04d}.declaration").write_bytes(upload.body)
            continue
        segments.append(folder / f"{number:04d}.segment")
        segments[-1].write_bytes(upload.body)
    return segments


def as_spool(runs: list[SimulatedRun], folder: Path) -> None:
    """Write the agent's own spool, as it is if it couldn't reach a service."""
    folder.mkdir(parents=True, exist_ok=True)
    spool = Spool(folder / "spool.sqlite3", CAP_BYTES)
    for run in runs:
        uploads = list(uploads_of(run))
        segments = [(decode_segment(u.body), u.body) for u in uploads if not is_declaration(u)]
        sessions = {s.machine_id: str(s.clock.session_id) for s, _ in segments}
        for session in sessions.values():
            spool.add_session(session, str(run.run_id), "")
        declarations = [u.body for u in uploads if is_declaration(u)]
        for session, body in zip(sessions.values(), declarations, strict=True):
            spool.declare(session, body)
        for segment, body in segments:
            spool.add(str(segment.clock.session_id), segment.seq, body)
    spool.close()


def command(*words: object, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run `python -m advisor analyse ...`, as a user does."""
    line = [sys.executable, "-m", "advisor", "analyse", *map(str, words)]
    variables = {**os.environ, "PYTHONPATH": f"{root}:{ROOT / 'agent'}"}
    return subprocess.run(
        line, cwd=root, env=variables, capture_output=True, text=True, timeout=120
    )


def document(*words: object, root: Path = ROOT) -> dict[str, Any]:
    done = command(*words, "--json", root=root)
    assert done.returncode == 0, done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed
