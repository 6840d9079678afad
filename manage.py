#!/usr/bin/env python3
"""Starts, tests and maintains Trimtab.

    python3 manage.py demo    the service, two measured training runs and sample data
    python3 manage.py up      the service
    python3 manage.py test    lint, types, import contracts and the tests

On a bare machine each first makes `.venv` and the browser libraries, and continues inside it.
Everything else is Django's own `manage.py`; `help` lists it.
"""

import os
import runpy
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent
LARGER_SETS = {"demo": "demo", "test": "test"}


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - older ones start this file, too
        sys.exit("Trimtab needs Python 3.11 or newer; this is " + sys.version.split()[0] + ".")
    if len(sys.argv) == 1:
        print(__doc__)
        return
    command = sys.argv[1]
    # By path, not by import: the package `webapp` needs what is about to be installed.
    bootstrap = runpy.run_path(str(CHECKOUT / "webapp" / "service" / "bootstrap.py"))
    bootstrap["enter_environment"](CHECKOUT, LARGER_SETS.get(command, "runtime"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    from webapp.service import late

    late.load_when_used(*late.FOR_MEASUREMENTS)
    if command == "up":
        # Not by Django, which loads all apps first.
        from webapp.management.commands.up import Command

        Command().run_from_argv(sys.argv)
        return
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
