"""`trimtab report RUN`: saves the report of a run as one HTML file."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from urllib.parse import quote

from trimtab import options
from trimtab.cli import reports
from trimtab.cli.arguments import Commands, add_server_arguments, say
from trimtab.identity import ServiceAccess
from trimtab.transport import ServiceAnswer, ServiceConnection

SAVED, NOT_SAVED = 0, 1
STANDARD_OUTPUT = Path("-")
_PATIENCE_SECONDS = 60.0
_MOST_BYTES = 64 * 1024 * 1024
_MARK, _END = b'<meta name="generator" content="Trimtab">', b"</html>"
_EPILOG = """
RUN is a run id, or JOB#NUMBER. The file has everything that the run's page shows, unfolded, and
needs no network: open it in a browser, print it, or send it. Exit code: 0; 1 if the file can't be
written; 2 if the service gave no answer.
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "report", help="save the report of a run as one HTML file", epilog=_EPILOG
    )
    parser.add_argument("run", metavar="RUN")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to save it, - for standard output; default a name made of RUN",
    )
    add_server_arguments(parser)
    parser.set_defaults(handler=report)


def report(arguments: argparse.Namespace) -> int:
    server = options.server(arguments.url, arguments.token, os.environ)
    if not server.url or not server.token:
        say("no service is set. Set TRIMTAB_URL and TRIMTAB_TOKEN, or run `trimtab init`.")
        return reports.FAILED
    try:
        content = _content(server, arguments.run)
    except ValueError as error:
        say(str(error))
        return reports.FAILED
    return _save(arguments.output or Path(_file_name(arguments.run)), content)


def _content(server: ServiceAccess, run: str) -> bytes:
    """Return the report. Raises ValueError that says why there is none."""
    connection = ServiceConnection(server, _PATIENCE_SECONDS, _MOST_BYTES)
    answer = connection.get(f"runs/{quote(run, safe='')}/report.html")
    if answer.status != 200:
        raise ValueError(answer.problem)
    if not _is_report(answer):
        raise ValueError(f"{server.url} gave an answer that isn't a report. Check the address.")
    return answer.content


def _is_report(answer: ServiceAnswer) -> bool:
    """Return whether the answer is whole, and of the service: a proxy's sign-in page is HTML,
    too.
    """
    content = answer.content
    return _MARK in content[:4096] and content.rstrip().endswith(_END)


def _save(path: Path, content: bytes) -> int:
    if path == STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
        return SAVED
    try:
        path.write_bytes(content)
    except OSError as error:
        say(f"can't write {path}: {error.strerror}")
        return NOT_SAVED
    print(path)
    return SAVED


def _file_name(run: str) -> str:
    """Return a file's name: `vision/train.py#12` -> `vision-train.py-12-report.html`."""
    plain = "".join(each if each.isalnum() or each in "._" else "-" for each in run)
    return f"{plain.lstrip('.-')[:200]}-report.html"
