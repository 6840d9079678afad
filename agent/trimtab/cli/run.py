"""`trimtab run -- CMD`: runs and measures a command, and exits with its exit code."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab import descriptors, launch
from trimtab.cli import run_options, shared_run
from trimtab.cli.arguments import Commands, say
from trimtab.cli.ending import end_run
from trimtab.declaration import MeasurementSubject
from trimtab.kept_stderr import KeptStderr
from trimtab.launch import Inheritance
from trimtab.session import Session
from trimtab.sharing import Lock
from trimtab.supervise import Command, failure_code

if TYPE_CHECKING:
    from trimtab.probe import Watch

_EXAMPLES = """
examples:
  trimtab run -- python train.py --lr 1e-4
  trimtab run --owner ana --tag team=vision -- torchrun --nproc-per-node 8 train.py
  trimtab run --instance-type g5.2xlarge --region us-east-1 --provider aws -- bash train.sh

exit code: that of the command; 127 not found, 126 not executable, 128+n ended by signal n, 2 wrong
options.
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="run a training command and measure it",
        usage="trimtab run [options] -- CMD",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run_options.add_identity_arguments(parser)
    run_options.add_measuring_arguments(parser)
    run_options.add_training_arguments(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not words or not words[0]:
        say("there is no command to run. Use trimtab run [options] -- CMD.")
        return 2
    inherited = launch.prepare_process()
    try:
        if _is_inside_a_run(arguments):
            launch.become(words, inherited.environment, inherited)
        lock = None if os.environ.get("TRIMTAB_DISABLE") == "1" else shared_run.lock_for(arguments)
        if lock and not lock.try_acquire() and (folder := lock.measuring_folder()):
            return shared_run.Follower(words, lock, folder).run(arguments, inherited)
        return _measured(words, lock, arguments, inherited)
    except OSError as error:
        say(f"{words[0]}: {error.strerror}")
        return failure_code(error)


def _is_inside_a_run(arguments: argparse.Namespace) -> bool:
    """Return whether the outer agent already measures this command: it does unless the command has
    its own job or run.
    """
    around = os.environ.get("TRIMTAB_RUN_DIR", "")
    return bool(around) and Path(around).is_dir() and not (arguments.run or arguments.job)


def _measured(
    words: Sequence[str],
    lock: Lock | None,
    arguments: argparse.Namespace,
    inherited: Inheritance,
) -> int:
    """Run and measure the command. Raises OSError if it can't be started."""
    began = time.monotonic()
    session = measuring_session(words, arguments)
    stderr = _kept_stderr(arguments) if session else None
    command = start_command(words, session, arguments, inherited, stderr)
    if session and lock:
        lock.publish(session.folder)
    ending = command.wait()
    if session:
        server = run_options.options(arguments).server
        seconds = time.monotonic() - began
        end_run(session, ending, seconds, server, arguments.result_file, stderr)
    return ending.exit_code or 0


def start_command(
    words: Sequence[str],
    session: Session | None,
    arguments: argparse.Namespace,
    inherited: Inheritance,
    stderr: KeptStderr | None = None,
) -> Command:
    """Start the command, and the session that measures it.

    Raises:
        OSError: the command can't be started; the session is cleaned up.
    """
    try:
        variables = inherited.environment
        if session:
            variables = shared_run.environment(session.folder, arguments, variables)
        command = Command(words, variables, inherited, stderr)
    except OSError:
        if session:
            session.clean_up()
        raise
    if session:
        _begin(session, command)
    return command


def _kept_stderr(arguments: argparse.Namespace) -> KeptStderr | None:
    try:
        return KeptStderr() if arguments.keep_stderr else None
    except OSError as error:
        say(f"standard error is not kept: {error}")
        return None


def measuring_session(
    words: Sequence[str], arguments: argparse.Namespace, watch: Watch | None = None
) -> Session | None:
    """Return a session, or None if measuring is impossible or disabled; the command runs anyway."""
    if os.environ.get("TRIMTAB_DISABLE") == "1":
        return None
    if (spare := descriptors.count_spare_descriptors()) < descriptors.NEEDED:
        say(
            "the command runs without being measured: the agent can open only"
            f" {max(0, spare)} of {descriptors.NEEDED} files. Raise the limit (`ulimit -n`)."
        )
        return None
    try:
        target = MeasurementSubject(words, run_options.environment(arguments))
        return Session(target, run_options.options(arguments), say, watch=watch)
    except Exception as error:
        say(f"the command runs without being measured: {error}")
        return None


def _begin(session: Session, command: Command) -> None:
    try:
        session.start(command.pid, command.end)
    except Exception as error:
        say(f"the command is not fully measured: {error}")
    if session.spool.path is None:
        say(f"samples are kept in memory only and can be lost: {session.spool.problem}")
