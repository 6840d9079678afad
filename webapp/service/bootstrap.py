"""Makes the environment that the service runs in. Standard library only: it runs before all else.

`.venv` holds the packages of one locked set (runtime < demo < test) and the agent, which is
installed editable, so that a change of its code is never stale. The stamp in `.venv` says which
locks it was made from; an environment made for a larger set serves the smaller.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SETS = ("runtime", "demo", "test")
STAMP = "trimtab-environment.json"
NODE_STAMP = ".trimtab-lock"
SHOWN_EVERY_SECONDS = {True: 0.5, False: 4.0}
"""The seconds between two lines of progress on a terminal, and elsewhere."""


def enter_environment(checkout: Path, wanted: str) -> None:
    """Return inside an environment that has the set `wanted`; makes it when there is none.

    Ends the process with a message and exit code 1 when it can't be made.
    """
    if os.environ.get("TRIMTAB_NO_VENV") == "1":
        return
    running = Path(sys.prefix)
    if _is_current(running, checkout, wanted) and _libraries_are_current(checkout):
        return
    venv = checkout / ".venv"
    try:
        with _only_one(checkout):
            _make(checkout, venv, wanted)
    except _StageFailedError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("\nInterrupted. The next start continues from here.")
    if running != venv:
        _go_on_inside(venv)


class _StageFailedError(Exception):
    """Raised when a stage failed; the message says what failed and how to mend it."""


def _go_on_inside(venv: Path) -> None:
    os.environ.pop("PYTHONHOME", None)
    os.environ["VIRTUAL_ENV"] = str(venv)
    python = str(venv / "bin" / "python")
    os.execv(python, [python, *sys.argv])  # noqa: S606


@contextlib.contextmanager
def _only_one(checkout: Path) -> Iterator[None]:
    """Let one process at a time make the environment. If two first starts happen at once, the
    second waits, then finds the work done.
    """
    handle = os.open(checkout, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Another command is preparing the environment; waiting for it.\n")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _make(checkout: Path, venv: Path, wanted: str) -> None:
    if not _is_current(venv, checkout, wanted):
        _make_venv(checkout, venv, wanted)
    if not _libraries_are_current(checkout):
        _install_libraries(checkout, venv)


# Sources of an environment


def _lock_file(checkout: Path, name: str) -> Path:
    return checkout / "requirements" / f"{name}.txt"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _stamp_for(checkout: Path, wanted: str) -> dict[str, str]:
    """Return the stamp of an environment. The editable install and the scripts name the checkout's
    path, so a moved one is stale.
    """
    held = SETS[: SETS.index(wanted) + 1]
    stamp = {name: _sha256(_lock_file(checkout, name)) for name in held}
    return stamp | {
        "agent": _sha256(checkout / "agent" / "pyproject.toml"),
        "checkout": str(checkout),
    }


def _read_stamp(prefix: Path) -> dict[str, str]:
    try:
        return dict(json.loads((prefix / STAMP).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _is_current(prefix: Path, checkout: Path, wanted: str) -> bool:
    stamp = _read_stamp(prefix)
    need = _stamp_for(checkout, wanted)
    # A set contains the smaller ones, so of the sets only the wanted one has to match.
    compared = (wanted, "agent", "checkout")
    return _runs(prefix) and all(stamp.get(key) == need[key] for key in compared)


def _runs(prefix: Path) -> bool:
    return os.access(prefix / "bin" / "python", os.X_OK)


# Making it


def _make_venv(checkout: Path, venv: Path, wanted: str) -> None:
    if importlib.util.find_spec("ensurepip") is None:
        raise _StageFailedError(_venv_hint())
    moved = _read_stamp(venv).get("checkout", str(checkout)) != str(checkout)
    clear = ["--clear"] if moved or not _runs(venv) else []
    if clear and venv.is_symlink():
        advice = "Remove the link, or set TRIMTAB_NO_VENV=1 to use the Python that you start with."
        raise _StageFailedError(f".venv is a link to {venv.readlink()}. {advice}")
    if clear or not (venv / "pyvenv.cfg").exists():
        _run("Creating .venv", [sys.executable, "-m", "venv", *clear, str(venv)])
    (venv / STAMP).unlink(missing_ok=True)
    lock = _lock_file(checkout, wanted)
    pins = sum(1 for line in lock.read_text(encoding="utf-8").splitlines() if "==" in line)
    _run(
        f"Installing {pins} packages",
        [*_pip(venv), "--require-hashes", "-r", str(lock)],
        counts=lambda line: line.startswith(("Collecting ", "Requirement already satisfied: ")),
        total=pins,
    )
    # The agent's build tool is in the lock; an isolated build would fetch an unpinned one.
    agent = ["--no-deps", "--no-build-isolation", "--editable", str(checkout / "agent")]
    _run("Installing the agent", [*_pip(venv), *agent])
    stamp = json.dumps(_stamp_for(checkout, wanted), indent=1)
    (venv / STAMP).write_text(stamp, encoding="utf-8")


def _pip(venv: Path) -> list[str]:
    python = str(venv / "bin" / "python")
    quiet = ["--disable-pip-version-check", "--no-input", "--no-warn-script-location"]
    return [python, "-m", "pip", "install", *quiet]


def _venv_hint() -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    hint = "This Python can't create virtual environments: it has no ensurepip. "
    if Path("/etc/debian_version").exists():
        return hint + f"Install that part:\n\n    sudo apt-get install -y python{version}-venv\n"
    return hint + f"Install the package of your system that brings `venv` for Python {version}."


# Browser libraries


def _libraries_are_current(checkout: Path) -> bool:
    stamp = checkout / "node_modules" / NODE_STAMP
    lock = checkout / "package-lock.json"
    return stamp.exists() and stamp.read_text(encoding="utf-8") == _sha256(lock)


def _install_libraries(checkout: Path, venv: Path) -> None:
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"]
    npm, path = _find_npm(checkout, venv)
    environment = os.environ | {"PATH": path}
    _run("Installing browser libraries", [npm, "ci", *quiet], cwd=checkout, env=environment)
    stamp = checkout / "node_modules" / NODE_STAMP
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(_sha256(checkout / "package-lock.json"), encoding="utf-8")


def _find_npm(checkout: Path, venv: Path) -> tuple[str, str]:
    """Return npm and the PATH on which it finds its Node; from a wheel when the machine has
    none.
    """
    path = os.environ.get("PATH", os.defpath)
    on_path = shutil.which("npm", path=path)
    if on_path and shutil.which("node", path=path):
        return on_path, path
    npm = venv / "bin" / "npm"
    if not npm.exists():
        lock = _lock_file(checkout, "node")
        _run("Installing Node.js", [*_pip(venv), "--require-hashes", "-r", str(lock)])
    return str(npm), f"{venv / 'bin'}{os.pathsep}{path}"


# Stages and their progress


def _run(
    title: str,
    command: list[str],
    counts: Callable[[str], bool] | None = None,
    total: int = 0,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> None:
    """Run one stage, its output kept back; it is shown whole when the stage fails."""
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=cwd,
        env=env,
    )
    assert process.stdout is not None  # noqa: S101 - for the type checker: PIPE was asked for
    output: list[str] = []
    with _clock(title, started, lambda: _counted(output, counts, total)):
        output.extend(process.stdout)
    if process.wait() != 0:
        _say("\n")
        text = "".join(output)
        raise _StageFailedError(f"{text}\n{title} failed (exit code {process.returncode}).")
    _show(title, started, "done", end="\n")


def _counted(output: list[str], counts: Callable[[str], bool] | None, total: int) -> str:
    """Return a stage's progress, counted from its output so far; empty if the output doesn't
    tell.
    """
    if counts is None:
        return ""
    return f"{min(sum(map(counts, list(output))), total)}/{total}"


@contextlib.contextmanager
def _clock(title: str, started: float, state: Callable[[], str]) -> Iterator[None]:
    """Show every few moments that the stage continues, and how far it is."""
    is_over = threading.Event()

    def tick() -> None:
        while not is_over.wait(SHOWN_EVERY_SECONDS[sys.stdout.isatty()]):
            _show(title, started, state())

    _show(title, started, state())
    clock = threading.Thread(target=tick, daemon=True)
    clock.start()
    try:
        yield
    finally:
        is_over.set()
        clock.join()


def _show(title: str, started: float, state: str, end: str = "") -> None:
    """Show a line that rewrites itself on a terminal, and a new line elsewhere."""
    line = f"{title:<32}{state:>9}{time.monotonic() - started:7.1f} s"
    _say(f"\r{line}{end}" if sys.stdout.isatty() else f"{line}\n")


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
