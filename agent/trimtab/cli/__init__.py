"""The command `trimtab`."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from trimtab import __version__

_MODULES = {
    "run": "run",
    "probe": "probe",
    "attach": "attach",
    "watch": "attach",
    "doctor": "doctor",
    "init": "init",
    "import": "importing",
    "cost": "cost",
    "compare": "compare",
    "report": "report",
    "sync": "sync",
    "status": "status",
}
"""The module of each command. Only one is imported, because an agent runs for days."""

_SELDOM_USED = ("inspect", "bz2", "lzma")
"""Modules of 1.3 MB that others import at their top: `dataclasses` for the signatures of classes
without a docstring, `shutil` to know which archives it can pack."""

_WAITING = ("import", "cost", "compare")
"""The commands with `--wait [SECONDS]`."""
_EPILOG = """
trimtab COMMAND --help describes a command. Set the service with TRIMTAB_URL and TRIMTAB_TOKEN, or
with `trimtab init`. If the service can't be reached, the agent keeps everything on this machine and
uploads it later.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code: for `run`, the command's own."""
    warnings.simplefilter("ignore")  # PYTHONWARNINGS is meant for the training
    _load_when_used(*_SELDOM_USED)
    words = _with_wait_last(sys.argv[1:] if words is None else list(words))
    arguments = _parser(words[:1]).parse_args(words)
    handler = arguments.handler
    try:
        return int(handler(arguments))
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _with_wait_last(words: list[str]) -> list[str]:
    """Return the words of a command with `--wait` at the end if no number of seconds follows it, as
    in `import --wait PATH`: argparse would take the path for the seconds.
    """
    if not words or words[0] not in _WAITING or "--wait" not in words[:-1]:
        return words
    at = words.index("--wait")
    try:
        float(words[at + 1])
    except ValueError:
        return [*words[:at], *words[at + 1 :], "--wait"]
    return words


class _Later(ModuleType):
    """Stands for a module, and loads it when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _load_when_used(*names: str) -> None:
    """Load the modules when they are used, in this process, which is never a training's."""
    for name in names:
        sys.modules.setdefault(name, _Later(name))


def _parser(first: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trimtab",
        description="Measures training runs and uploads the samples to Trimtab.",
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
