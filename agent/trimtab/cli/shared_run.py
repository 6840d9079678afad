"""A command of a run that another agent on this node already measures."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trimtab import hooks, identity, mlflow_context, sharing
from trimtab.cli import run_options
from trimtab.cli.arguments import say
from trimtab.cli.ending import end_run
from trimtab.declaration import MeasurementSubject
from trimtab.launch import Inheritance
from trimtab.session import Session
from trimtab.sharing import Lock
from trimtab.supervise import Command, CommandEnding

_ASK_SECONDS = 1.0
_SAME_END_SECONDS = 3.0
"""The time within which ranks count as ending at the same time."""


def lock_for(arguments: argparse.Namespace) -> Lock | None:
    """Return the lock of a run that several commands may share; None if no name is shared."""
    environment = run_options.environment(arguments)
    if not identity.is_shared(environment):
        return None
    run = identity.run_id(run_options.options(arguments).server, environment)
    with suppress(OSError):
        return Lock(run, identity.attempt(environment))
    return None


class Follower:
    """Runs a command while another agent measures; takes over when that agent ends."""

    def __init__(self, words: Sequence[str], lock: Lock, folder: Path) -> None:
        self._words, self._lock, self._folder = words, lock, folder
        self._over = threading.Event()
        self._session: Session | None = None

    def run(self, arguments: argparse.Namespace, inherited: Inheritance) -> int:
        """Run the command. Raises OSError if it can't be started."""
        began = time.monotonic()
        variables = environment(self._folder, arguments, inherited.environment)
        command = Command(self._words, variables, inherited)
        with suppress(OSError):
            sharing.join(self._folder, command.pid)
        takeover = threading.Thread(target=self._take_over, args=(command, arguments), daemon=True)
        takeover.start()
        ending = command.wait()
        # Return at once: the measuring agent may be about to report the run's end.
        sharing.leave(self._folder, command.pid, ending.exit_code)
        self._over.set()
        takeover.join(_SAME_END_SECONDS)
        self._end(ending, time.monotonic() - began, arguments)
        return ending.exit_code or 0

    def _take_over(self, command: Command, arguments: argparse.Namespace) -> None:
        """Take over when the other agent ends, but not at once: if all ranks end together, nothing
        is left to measure.
        """
        while not self._over.wait(_ASK_SECONDS):
            if self._lock.try_acquire():
                if not self._over.wait(_SAME_END_SECONDS):
                    self._measure(command, arguments)
                return

    def _measure(self, command: Command, arguments: argparse.Namespace) -> None:
        try:
            target = MeasurementSubject(self._words, run_options.environment(arguments))
            session = Session(target, run_options.options(arguments), say, self._folder)
            self._lock.publish(session.folder)
            session.start(command.pid, command.end)
            self._session = session
        except Exception as error:
            say(f"the rest of the run is not measured: {error}")

    def _end(self, ending: CommandEnding, seconds: float, arguments: argparse.Namespace) -> None:
        if self._session:
            server = run_options.options(arguments).server
            end_run(self._session, ending, seconds, server, arguments.result_file)
        self._lock.release()


def environment(
    folder: Path, arguments: argparse.Namespace, outer: Mapping[str, str]
) -> dict[str, str]:
    """Return the command's environment: `outer`, with the run's folder, the hook, and a tag for
    MLflow.
    """
    outer = mlflow_context.environment(outer, folder)
    if arguments.no_hook:
        return {**outer, "TRIMTAB_RUN_DIR": str(folder)}
    return hooks.environment(outer, folder)
