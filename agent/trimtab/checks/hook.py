"""Checks whether the training's Python loads the hook."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from trimtab import hooks
from trimtab.checks.check import Check, CheckState

_HOOK_TEST = (
    "import sys, importlib.util as u; print(type(sys.meta_path[0]).__name__ == '_Watcher',"
    " u.find_spec('torch') is not None)"
)
_PYTHON_SECONDS = 20


def hook() -> Check:
    lost = (
        "steps, data wait, loader settings and checkpoints, unless the script calls trimtab.step()"
    )
    python = shutil.which("python") or shutil.which("python3")
    if python is None:
        fix = "activate the training's environment"
        return Check("hook", CheckState.MISSING, "no python on PATH", lost, fix)
    if os.environ.get("TRIMTAB_DISABLE") == "1":
        return Check("hook", CheckState.MISSING, "TRIMTAB_DISABLE=1", lost, "unset TRIMTAB_DISABLE")
    loaded = _hooked(python)
    if loaded is None or not loaded[0]:
        fix = "don't start Python with -I, -E or -S"
        return Check("hook", CheckState.PARTLY, f"{python} doesn't load the hook", lost, fix)
    torch = "with torch" if loaded[1] else "without torch; use a callback or trimtab.step()"
    return Check("hook", CheckState.FINE, f"{python}, {torch}")


def _hooked(python: str) -> tuple[bool, bool] | None:
    environment = hooks.environment(os.environ, Path("/nonexistent"))
    try:
        answer = subprocess.run(
            [python, "-c", _HOOK_TEST],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PYTHON_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    words = answer.stdout.split()
    return ("True" in words[:1], "True" in words[1:2])
