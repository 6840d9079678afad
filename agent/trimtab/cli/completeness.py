"""Waits until all of some runs has arrived and was analysed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

from trimtab.cli.arguments import say

WAIT_SECONDS, MOST_WAIT_SECONDS = 600, 7 * 24 * 3600
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0

Document = dict[str, Any]


def add_wait_argument(parser: argparse.ArgumentParser, until: str) -> None:
    """Add `--wait [SECONDS]`, which waits until that is so."""
    parser.add_argument(
        "--wait",
        type=wait_seconds_of,
        nargs="?",
        const=WAIT_SECONDS,
        metavar="SECONDS",
        help=f"wait until {until} (default {WAIT_SECONDS})",
    )


def ask_until_settled(
    ask: Callable[[], Document | None],
    runs_in: Callable[[Document], Sequence[Document]],
    wait_seconds: float | None,
) -> Document | None:
    """Return the service's answer; with a time to wait, once nothing more is expected or the time
    is over.

    Args:
        ask: None if there is no answer, which it has said.
        runs_in: the runs that an answer is about.
    """
    deadline = time.monotonic() + (wait_seconds or 0.0)
    pause = FIRST_PAUSE_SECONDS
    while True:
        answer = ask()
        if wait_seconds is None or answer is None or not incomplete_runs(runs_in(answer)):
            return answer
        left = deadline - time.monotonic()
        if left <= 0 or not is_more_expected(runs_in(answer)):
            _say_in_vain(runs_in(answer), wait_seconds)
            return answer
        time.sleep(min(pause, left))
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def incomplete_runs(runs: Sequence[Document]) -> list[Document]:
    """Return the runs of which something is missing. An older service doesn't say."""
    return [run for run in runs if not run.get("is_complete", True)]


def is_more_expected(runs: Sequence[Document]) -> bool:
    """Return whether something is missing, and all of it may still come."""
    missing = incomplete_runs(runs)
    return bool(missing) and all(run["may_complete"] for run in missing)


def _say_in_vain(runs: Sequence[Document], waited_seconds: float) -> None:
    reasons = "; ".join(
        f"run #{run['number']} ({run['state']}): {', '.join(run['incomplete_because'])}"
        for run in incomplete_runs(runs)
    )
    if is_more_expected(runs):
        say(f"not complete after {waited_seconds:g} s: {reasons}.")
    else:
        say(f"waiting doesn't help: {reasons}.")


def wait_seconds_of(text: str) -> float:
    """Return the value of `--wait`. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_WAIT_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text} is not a number of seconds from 0 to {MOST_WAIT_SECONDS}."
        )
    return seconds
