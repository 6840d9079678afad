"""`trimtab init`: remembers the service for this user, after having asked it."""

from __future__ import annotations

import argparse
import getpass
import os
import sys

from trimtab import settings
from trimtab.cli.arguments import Commands, add_server_arguments, say
from trimtab.connection_test import connection_problem
from trimtab.identity import Server

_PIPED = "-"


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "init",
        help="remember the service's address and token for this user",
        epilog="Environment variables and options go before what is remembered. A token on the\n"
        "command line can be seen by other users: leave --token out to be asked for it, or\n"
        "pipe it in with --token -.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_arguments(parser)
    parser.add_argument("--force", action="store_true", help="even if the service doesn't answer")
    parser.set_defaults(handler=init)


def init(arguments: argparse.Namespace) -> int:
    """0: remembered; 1: the service or the token is no good; 2: something wasn't said."""
    url = arguments.url or os.environ.get("TRIMTAB_URL", "") or _asked("Address of the service: ")
    token = _token(arguments)
    if not url or not token:
        say("address and token are both needed. Use --url and --token, or answer the questions.")
        return 2
    server = Server(url.strip().rstrip("/"), token.strip())
    try:
        problem = connection_problem(server)
    except ValueError as error:
        say(str(error))
        return 2
    if problem and not arguments.force:
        say(f"{problem}. Nothing was changed; --force remembers it all the same.")
        return 1
    print(f"{settings.remember(server)}: {server.url}")
    return 0


def _token(arguments: argparse.Namespace) -> str:
    if arguments.token == _PIPED:
        return sys.stdin.readline()
    token = arguments.token or os.environ.get("TRIMTAB_TOKEN", "")
    if not token and sys.stdin.isatty():
        return getpass.getpass("Token: ")
    return token


def _asked(question: str) -> str:
    return input(question) if sys.stdin.isatty() else ""
