"""The command `trimtab`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from trimtab import __version__

_MODULES = {
    "run": "run",
    "attach": "attach",
    "watch": "attach",
    "doctor": "doctor",
    "init": "init",
    "import": "importing",
    "cost": "cost",
    "compare": "compare",
    "sync": "sync",
    "status": "status",
}
"""Which module holds a command. Only that one is loaded: an agent lives for days with it."""

_EPILOG = """
trimtab COMMAND --help tells more. Without a service in reach everything is kept on this machine
and sent later. TRIMTAB_URL and TRIMTAB_TOKEN (or `trimtab init`) say where to.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit code: for `run`, the command's own."""
    words = sys.argv[1:] if words is None else list(words)
    arguments = _parser(words[:1]).parse_args(words)
    handler = arguments.handler
    try:
        return int(handler(arguments))
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _parser(first: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trimtab",
        description="Measures a training run and sends what it saw to Trimtab.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"trimtab {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    wanted = [_MODULES[word] for word in first if word in _MODULES] or _MODULES.values()
    for name in dict.fromkeys(wanted):
        import_module(f"trimtab.cli.{name}").add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
