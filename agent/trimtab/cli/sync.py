"""`trimtab sync`: uploads what the spool still holds."""

from __future__ import annotations

import argparse
import os
import signal
import time

from trimtab import options
from trimtab.cli.arguments import Commands, add_server_arguments, say, say_count
from trimtab.identity import ServiceAccess
from trimtab.spool import Spool, open_spool
from trimtab.uploader import Courier

_PATIENCE_SECONDS = 30.0
_DETACHED_SECONDS = 600.0


def add_to(commands: Commands) -> None:
    parser = commands.add_parser("sync", help="upload what the spool still holds")
    add_server_arguments(parser)
    parser.add_argument(
        "--all", action="store_true", help="also uploads that were for another service or token"
    )
    parser.add_argument(
        "--dead", action="store_true", help="also send again what the service has refused"
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=_PATIENCE_SECONDS,
        metavar="SECONDS",
        help="give up after SECONDS without progress; default 30",
    )
    parser.add_argument(
        "--detached", action="store_true", help="print nothing, and retry for up to ten minutes"
    )
    parser.set_defaults(handler=sync)


def sync(arguments: argparse.Namespace) -> int:
    """Upload what is left. Returns 0 once the spool is empty, for this service and all others."""
    server = options.server(arguments.url, arguments.token, os.environ)
    if not server.url:
        say("no service is set. Set TRIMTAB_URL or use --url.")
        return 2
    spool = open_spool()
    quiet = arguments.detached
    if quiet:
        # `run` blocks signals and its children inherit that; a drainer must end at SIGTERM.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        courier = Courier(spool, server, _silent if quiet else say)
    except ValueError as error:
        say(str(error))
        return 2
    if arguments.dead:
        spool.dead.adopt_orphans()
    sessions = spool.claim(_destinations(server, arguments), drainer=quiet, from_drainers=not quiet)
    if arguments.dead:
        spool.dead.revive(sessions)
    if not quiet:
        spool.postponed.retry(sessions, refused=arguments.dead)
    patience = _DETACHED_SECONDS if quiet else arguments.wait
    _drain(courier, sessions, patience, stubborn=quiet)
    for session in sessions:
        spool.release(session)
    spool.tidy()
    held = spool.contents()
    if not quiet:
        _report(spool, courier, sessions)
    return 1 if held.unsent else 0


def _destinations(server: ServiceAccess, arguments: argparse.Namespace) -> list[str] | None:
    """Return this service, and uploads from before any service was set; None means all."""
    if arguments.all:
        return None
    return [server.destination] if arguments.detached else [server.destination, ""]


def _drain(courier: Courier, sessions: list[str], patience_seconds: float, stubborn: bool) -> None:
    """Send until nothing is left, or nothing was sent for `patience_seconds`.

    `stubborn`: stop after `patience_seconds` in total, and not because the token is refused.
    """
    until = time.monotonic() + patience_seconds
    while time.monotonic() < until:
        sent = courier.send_one(sessions)
        if sent is None or (courier.not_allowed and not stubborn):
            return
        if sent and not stubborn:
            until = time.monotonic() + patience_seconds
        pause = courier.not_before - time.monotonic()
        time.sleep(max(0.0, min(pause, until - time.monotonic())))


def _report(spool: Spool, courier: Courier, sessions: list[str]) -> None:
    left = spool.contents(sessions)
    stuck = f", {left.unsent} left: {courier.problem or left.last_error}" if left.unsent else ""
    print(f"{say_count(courier.taken, 'segment')} uploaded{_set_apart(spool)}{stuck}")
    for destination, count in spool.destinations() if not left.unsent else []:
        whose = destination.split(" ")[0] or "a running agent"
        fix = "Use --all to send them to this service, or wait for their agent"
        print(f"{say_count(count, 'segment')} for {whose} left. {fix}")


def _set_apart(spool: Spool) -> str:
    dead = spool.dead.contents()
    count = dead.segments + len(dead.others)
    if not count:
        return ""
    return f", {count} refused by the service and set apart (see `trimtab status`)"


def _silent(text: str) -> None:
    """Print nothing: the process is detached."""
