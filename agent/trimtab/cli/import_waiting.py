"""`trimtab import --wait`: follows the conversion, and prints its place in line and its stage."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from trimtab.cli.arguments import say
from trimtab.cli.completeness import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    add_wait_argument,
)
from trimtab.identity import ServiceAccess
from trimtab.transport import ServiceConnection

DONE, FAILED, IN_VAIN = 0, 1, 3
_MOST_REASONS = 5
"""The most kinds of skipped records that are printed; the run's page has all."""

Document = dict[str, Any]


def add_argument(parser: argparse.ArgumentParser) -> None:
    add_wait_argument(parser, "the service has converted it, and print its place in line")


def follow(server: ServiceAccess, run: str, wait_seconds: float | None) -> int:
    """Print how the imports of the run go, until all have ended or the time is over.

    Returns:
        The exit code; 0 at once if nobody waits.
    """
    if wait_seconds is None:
        return DONE
    deadline = time.monotonic() + wait_seconds
    pause, told = FIRST_PAUSE_SECONDS, ""
    while (imports := _imports_of(server, run)) is not None:
        words = "; ".join(_words(each) for each in imports if each.get("state") != "failed")
        if words and words != told:
            print(words, flush=True)
            pause, told = FIRST_PAUSE_SECONDS, words
        if all(each.get("state") in ("done", "failed") for each in imports):
            return _ended(imports)
        left = deadline - time.monotonic()
        if left <= 0:
            say(f"not converted after {wait_seconds:g} s. The run's page shows how it continues.")
            return IN_VAIN
        time.sleep(min(pause, left))
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    return IN_VAIN


def _ended(imports: Sequence[Document]) -> int:
    """Say what was skipped and what failed. Return the exit code."""
    for each in imports:
        if each.get("state") == "failed":
            say(f"the import failed: {each.get('error')}")
        for skipped in (each.get("reasons") or ())[:_MOST_REASONS]:
            first = f" (the first: {skipped['first']})" if skipped.get("first") else ""
            print(f"  {skipped['what']} skipped: {skipped['count']}, {skipped['why']}{first}")
    return FAILED if any(each.get("state") == "failed" for each in imports) else DONE


def _imports_of(server: ServiceAccess, run: str) -> Sequence[Document] | None:
    """Return the service's answer; None if there is none, which it says."""
    answer = ServiceConnection(server).get(f"runs/{run}/imports")
    if answer.status == 200:
        with suppress(ValueError):
            found = json.loads(answer.content)
            if isinstance(found, list) and all(isinstance(each, dict) for each in found):
                return found
    say(answer.problem or f"{server.url} gave an answer that isn't JSON.")
    if answer.status == 403:
        say("use a token that has the scope `read`, too.")
    return None


def _words(said: Document) -> str:
    """Return one import's state in words. Earlier services tell no place."""
    state = said.get("state")
    if state == "done":
        return f"converted from {said.get('format')}: {said.get('records')} records"
    if state == "under_way":
        return str(said.get("stage") or "under way")
    if said.get("continues_at"):
        return f"waits for the workspace's quota until {said['continues_at']}"
    if said.get("place"):
        return f"waits at place {said['place']} in line"
    return str(said.get("stage") or "waits")
