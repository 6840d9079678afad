"""The end of a measured run: upload what is left, print the summary, start a drainer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from trimtab.cli import reports
from trimtab.cli.arguments import say, say_count
from trimtab.identity import ServiceAccess
from trimtab.kept_stderr import KeptStderr
from trimtab.session import Session
from trimtab.supervise import CommandEnding
from trimtab.transport import ServiceConnection

UPLOAD_SECONDS = 5.0
"""The longest delay of the end of a run."""
_VERDICT_SECONDS = 3.0
"""The longest time that a run in a terminal waits for the service's analysis."""


def end_run(
    session: Session,
    ending: CommandEnding,
    seconds: float,
    server: ServiceAccess,
    result_file: Path | None,
    stderr: KeptStderr | None = None,
) -> None:
    """End the run. Never raises: whatever fails here, the exit code stays that of the command."""
    until = time.monotonic() + UPLOAD_SECONDS
    try:
        session.finish(ending, UPLOAD_SECONDS, stderr)
        _write_result(session, ending, seconds, server, result_file)
        waiting = session.waiting
        spool = session.spool.path
        if waiting and spool is None:
            say(_lost(waiting))
        elif waiting and server.url and spool:
            leave_drainer(server, spool.parent)
        if sys.stderr and sys.stderr.isatty():
            say(_summary(session, ending, seconds, server, until))
    except Exception as error:
        say(f"the end of the run was not fully recorded: {error}")


def _lost(waiting: int) -> str:
    return (
        f"{say_count(waiting, 'upload')} lost: the samples were in memory only, and the service"
        " didn't take them in time. Set TRIMTAB_STATE_DIR to a folder with free space."
    )


def _write_result(
    session: Session,
    ending: CommandEnding,
    seconds: float,
    server: ServiceAccess,
    result_file: Path | None,
) -> None:
    result = {
        "run_id": str(session.run_id),
        "url": server.page(session.run_id),
        "exit_code": ending.exit_code,
        "seconds": round(seconds, 3),
        "uploaded": session.uploaded,
        "spooled": session.spool.contents([str(session.id)]).waiting,
    }
    path = result_file or os.environ.get("TRIMTAB_RESULT_FILE")
    if path:
        with suppress(OSError):
            Path(path).write_text(json.dumps(result) + "\n")


def _summary(
    session: Session, ending: CommandEnding, seconds: float, server: ServiceAccess, until: float
) -> str:
    """Return one line: how the run ended, its cost, the top finding, its URL."""
    spooled = session.spool.contents([str(session.id)]).waiting
    by_rule = f" by rule {ending.rule}" if ending.rule else ""
    parts = [f"{ending.state}{by_rule} in {seconds:.1f} s"]
    parts.append(f"{say_count(session.uploaded, 'segment')} uploaded")
    if spooled:
        parts.append(f"{spooled} kept for later")
    elif server.url:
        parts += _verdict(session, server, min(until, time.monotonic() + _VERDICT_SECONDS))
    if server.url:
        parts.append(server.page(session.run_id))
    return ", ".join(parts)


def _verdict(session: Session, server: ServiceAccess, until: float) -> list[str]:
    """Return cost and top finding, if the service has them in time."""
    run: dict[str, Any] = {}
    while not run.get("analysis_is_final"):
        left = until - time.monotonic()
        if left <= 0:
            break
        run = ServiceConnection(server, timeout_seconds=left).get(f"runs/{session.run_id}").document
        time.sleep(min(0.3, max(0.0, until - time.monotonic())))
    return verdict(run)


def verdict(run: dict[str, Any]) -> list[str]:
    """Return the cost of a run and its finding with the most waste, from the service's answer."""
    parts = []
    with suppress(ArithmeticError, ValueError, TypeError):
        if run.get("cost_usd"):
            parts.append(reports.usd(run["cost_usd"]))
    findings = [f for f in run.get("findings") or [] if isinstance(f, dict)]
    if findings:
        top = max(findings, key=_waste_usd)
        waste = _waste_usd(top)
        worth = f" (up to {reports.usd(f'{waste:.9f}')} wasted)" if waste else ""
        parts.append(f"{str(top.get('title', ''))[:100]}{worth}")
    return parts


def _waste_usd(finding: dict[str, Any]) -> float:
    try:
        return float(finding.get("waste_usd_high") or 0)
    except (ValueError, TypeError):
        return 0.0


def leave_drainer(server: ServiceAccess, state_folder: Path) -> None:
    """Start a detached process that uploads for up to ten minutes after this one exits."""
    environment = {
        **os.environ,
        "TRIMTAB_URL": server.url,
        "TRIMTAB_TOKEN": server.token,
        "TRIMTAB_STATE_DIR": str(state_folder.absolute()),
    }
    subprocess.Popen(
        [sys.executable, "-m", "trimtab.cli", "sync", "--detached"],
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
