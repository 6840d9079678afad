"""`trimtab sync`: sends what the spool still holds."""

from __future__ import annotations

import argparse
import os
import time

from trimtab import options
from trimtab.cli.arguments import Commands, add_server_arguments, say, say_count
from trimtab.spool import Spool, open_spool
from trimtab.uploader import Courier

_PATIENCE_SECONDS = 20.0
_DETACHED_SECONDS = 600.0


def add_to(commands: Commands) -> None:
    parser = commands.add_parser("sync", help="send what the spool still holds")
    add_server_arguments(parser)
    parser.add_argument(
        "--all", action="store_true", help="also what was meant for another address or token"
    )
    parser.add_argument("--detached", action="store_true", help="quietly, for up to ten minutes")
    parser.set_defaults(handler=sync)


def sync(arguments: argparse.Namespace) -> int:
    """0 once nothing waits for this service any more."""
    server = options.server(arguments.url, arguments.token, os.environ)
    if not server.url:
        say("where to? Set TRIMTAB_URL or use --url.")
        return 2
    spool = open_spool()
    quiet = arguments.detached
    try:
        courier = Courier(spool, server, _silent if quiet else say)
    except ValueError as error:
        say(str(error))
        return 2
    destinations = None if arguments.all else [server.destination, ""]
    if quiet:
        destinations = [server.destination]
        if not server.destination:
            destinations = [""]
    patience = _DETACHED_SECONDS if quiet else _PATIENCE_SECONDS
    waiting = _drain(spool, courier, destinations, patience, stubborn=quiet)
    spool.tidy()
    if not quiet:
        _report(spool, courier, waiting)
    return 1 if waiting else 0


def _drain(
    spool: Spool,
    courier: Courier,
    destinations: list[str] | None,
    patience_seconds: float,
    stubborn: bool,
) -> int:
    """Until nothing waits, or no progress for as long as `patience_seconds`; returns what waits."""
    until = time.monotonic() + patience_seconds
    sessions = spool.claim(destinations)
    while time.monotonic() < until:
        sent = courier.send_one(sessions)
        if sent is None or (courier.not_allowed and not stubborn):
            break
        if sent and not stubborn:
            until = time.monotonic() + patience_seconds
        pause = courier.not_before - time.monotonic()
        time.sleep(max(0.0, min(pause, until - time.monotonic())))
    contents = spool.contents(sessions)
    for session in sessions:
        spool.release(session)
    return contents.waiting + contents.undeclared


def _report(spool: Spool, courier: Courier, waiting: int) -> None:
    dead = spool.contents().dead
    apart = f", {dead} refused and set apart" if dead else ""
    left = f", {waiting} left: {courier.problem}" if waiting else ""
    print(f"{say_count(courier.taken, 'segment')} uploaded{apart}{left}")
    elsewhere = [(to, count) for to, count in spool.destinations() if to]
    for destination, count in elsewhere if not waiting else []:
        address = destination.split(" ")[0]
        print(f"{say_count(count, 'segment')} for {address} with its token not sent; see --all")


def _silent(text: str) -> None:
    """A detached process has nobody to tell."""
