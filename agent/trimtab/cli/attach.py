"""`trimtab attach PID` and `trimtab watch`: measure a running process, or the machine alone."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from trimtab.cli import run_options
from trimtab.cli.arguments import Commands, say
from trimtab.cli.ending import end_run
from trimtab.declaration import MeasurementSubject
from trimtab.session import Session
from trimtab.supervise import CommandEnding, block_end_signals

_RUN_FOLDER = b"TRIMTAB_RUN_DIR="


def add_to(commands: Commands) -> None:
    attach_parser = commands.add_parser(
        "attach",
        help="measure a running process until it ends",
        usage="trimtab attach [options] PID",
        epilog="Ctrl-C ends the measurement only. The run has no exit code, steps or\n"
        "loader settings: the training hook must be loaded when the process starts.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    attach_parser.add_argument("pid", type=int, metavar="PID")
    watch_parser = commands.add_parser(
        "watch", help="measure this machine without a job, until Ctrl-C"
    )
    for parser, handler in ((attach_parser, attach), (watch_parser, watch)):
        run_options.add_identity_arguments(parser)
        run_options.add_measuring_arguments(parser)
        parser.set_defaults(handler=handler)


def attach(arguments: argparse.Namespace) -> int:
    """Measure a process. Returns 0 after it ended or the user pressed Ctrl-C, 1 if it can't be
    measured.
    """
    process = Path(f"/proc/{arguments.pid}")
    try:
        words = [w.decode(errors="replace") for w in _pieces(process / "cmdline")]
        variables = _pieces(process / "environ")
        target = MeasurementSubject(
            words, _environment(variables, arguments), (process / "cwd").readlink()
        )
    except FileNotFoundError:
        say(f"there is no process {arguments.pid}. Check the PID.")
        return 1
    except PermissionError:
        say(f"process {arguments.pid} belongs to another user. Attach as that user, or as root.")
        return 1
    if any(variable.startswith(_RUN_FOLDER) for variable in variables):
        say(f"process {arguments.pid} is already measured by `trimtab run`.")
        return 1
    return _measured(target, arguments.pid, arguments)


def watch(arguments: argparse.Namespace) -> int:
    return _measured(MeasurementSubject((), run_options.environment(arguments)), None, arguments)


def _measured(target: MeasurementSubject, pid: int | None, arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    options = run_options.options(arguments)
    try:
        session = Session(target, options, say)
    except ValueError as error:
        say(str(error))
        return 2
    with block_end_signals(pid) as ended:
        session.start(pid)
        if session.spool.path is None:
            say(f"samples are kept in memory only and can be lost: {session.spool.problem}")
        what = "this machine" if pid is None else f"process {pid}"
        say(f"measuring {what} as {session.job}; press Ctrl-C to end")
        ended.wait()
    seconds = time.monotonic() - began
    end_run(
        session, CommandEnding(None, False, None), seconds, options.server, arguments.result_file
    )
    return 0


def _pieces(path: Path) -> list[bytes]:
    return [piece for piece in path.read_bytes().split(b"\0") if piece]


def _environment(variables: list[bytes], arguments: argparse.Namespace) -> dict[str, str]:
    """Return the process's own environment: its launcher sets the run that it belongs to."""
    texts = (variable.decode(errors="replace").partition("=") for variable in variables)
    environment = {name: value for name, _, value in texts}
    if arguments.run:
        environment["TRIMTAB_RUN"] = arguments.run
    return environment
