"""`trimtab init`: tests the service's URL and token, and saves them for this user."""

from __future__ import annotations

import argparse
import getpass
import os
import sys

from trimtab import settings
from trimtab.cli.arguments import Commands, add_server_arguments, say
from trimtab.connection_test import connection_problem
from trimtab.identity import ServiceAccess

_PIPED = "-"


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "init",
        help="save the service's URL and token for this user",
        epilog="Options and environment variables override what is saved. Other users can see a\n"
        "token on the command line: omit --token to be asked for it, or pipe it in with --token -.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_arguments(parser)
    parser.add_argument("--force", action="store_true", help="save even if the test fails")
    parser.set_defaults(handler=init)


def init(arguments: argparse.Namespace) -> int:
    """Save the service. Returns 0 if saved, 1 if the service or token doesn't work, 2 if one is
    missing or wrong.
    """
    url = arguments.url or os.environ.get("TRIMTAB_URL", "") or _asked("URL of the service: ")
    token = _token(arguments)
    if not url or not token:
        say("the URL or the token is missing. Use --url and --token, or answer the questions.")
        return 2
    server = ServiceAccess(url.strip().rstrip("/"), token.strip())
    try:
        problem = connection_problem(server)
    except ValueError as error:
        say(str(error))
        return 2
    if problem and not arguments.force:
        say(f"{problem}. Nothing was saved; use --force to save it anyway.")
        return 1
    print(f"{settings.save_server(server)}: {server.url}")
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
