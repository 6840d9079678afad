"""`trimtab doctor`: what can be measured here, what is lost without the rest, and how to fix it."""

from __future__ import annotations

import argparse

from trimtab.checks import CheckState, all_checks
from trimtab.cli import payload, run_options
from trimtab.cli.arguments import Commands

_MARKS = {
    CheckState.FINE: "ok",
    CheckState.PARTLY: "partly",
    CheckState.MISSING: "missing",
    CheckState.WRONG: "WRONG",
}


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "doctor",
        help="check what can be measured here, and how to fix the rest",
        usage="trimtab doctor [--payload] [options] [-- CMD]",
        epilog="Exit code: 1 if something that is set up doesn't work, else 0. Something that the "
        "machine doesn't have is not an error.",
    )
    parser.add_argument(
        "--payload",
        action="store_true",
        help="print exactly what `run -- CMD` would send first, as JSON, and send nothing",
    )
    run_options.add_identity_arguments(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD")
    parser.set_defaults(handler=doctor)


def doctor(arguments: argparse.Namespace) -> int:
    options = run_options.options(arguments)
    if arguments.payload:
        words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
        payload.show(words, run_options.environment(arguments), options)
        return 0
    checks = all_checks(options)
    for check in checks:
        print(f"{_MARKS[check.state]:8} {check.name:14} {check.seen}")
        if check.lost:
            print(f"{'':24}not available: {check.lost}")
        if check.fix:
            print(f"{'':24}fix: {check.fix}")
    return 1 if any(check.state is CheckState.WRONG for check in checks) else 0
