"""The advisor without a service.

`analyse RUN_DIR` prints one run's cost, findings and advice; `import PATH` those of a run that
another tool recorded; `predict` how fast a training would run on other GPUs.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

from trimtab.wire import NodeFacts

from advisor.importers.recording import NotImportableError
from advisor.importers.s3 import Address, SourceAwayError
from advisor.importers.stated_facts import StatedFacts, from_document
from advisor.offline.analysis import analyse, report_of
from advisor.offline.document import as_document
from advisor.offline.importing import (
    ImportedRun,
    import_address,
    import_path,
    read_description,
)
from advisor.offline.reading import Folder, FolderError, StoredRun, read_folder
from advisor.offline.report import as_text, import_text
from advisor.sizing.demand import BALANCED, PRESETS
from advisor.speed.lines import answers
from advisor.store.room import RoomExceededError

ANALYSED, NOT_ANALYSED, PARTLY_UNREADABLE = 0, 2, 3
EXIT_CODES = """exit codes:
  0  analysed
  2  nothing was analysed: no such folder, no samples in it, wrong options, or the run is too large
  3  analysed, but parts of the run can't be read; they are named on stderr
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit code; see `EXIT_CODES`."""
    arguments = _parser().parse_args(words)
    return int(arguments.command(arguments))


def _predict(arguments: argparse.Namespace) -> int:
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
    for answer in answers(lines):
        print(answer, flush=True)
    return 0


def _analyse(arguments: argparse.Namespace) -> int:
    try:
        folder = read_folder(arguments.folder)
        run = _chosen(folder, arguments.run)
    except FolderError as error:
        print(f"trimtab: {error}", file=sys.stderr)
        return NOT_ANALYSED
    for part in folder.unreadable:
        print(f"trimtab: can't be read: {part}", file=sys.stderr)
    preset = PRESETS[arguments.preset]
    try:
        report = analyse(run, _stated(arguments), preset, datetime.now(UTC))
    except RoomExceededError as error:
        print(f"trimtab: the run is too large to judge: it has {error}", file=sys.stderr)
        return NOT_ANALYSED
    print(json.dumps(as_document(report), indent=2) if arguments.json else as_text(report))
    return PARTLY_UNREADABLE if folder.unreadable else ANALYSED


def _import(arguments: argparse.Namespace) -> int:
    try:
        imported = _imported(arguments)
    except (NotImportableError, SourceAwayError) as error:
        print(f"trimtab: {error}", file=sys.stderr)
        return NOT_ANALYSED
    preset, now = PRESETS[arguments.preset], datetime.now(UTC)
    try:
        report = report_of(imported.run, imported.timeline, preset, now)
    except RoomExceededError as error:
        print(f"trimtab: the run is too large to judge: it has {error}", file=sys.stderr)
        return NOT_ANALYSED
    if arguments.json:
        document = as_document(report) | {"imported": imported.imported.document()}
        print(json.dumps(document, indent=2))
    else:
        print(import_text(imported.imported))
        print(as_text(report))
    return ANALYSED


def _imported(arguments: argparse.Namespace) -> ImportedRun:
    """Import the recording. Raises NotImportableError or SourceAwayError."""
    known, where = _facts(arguments), arguments.path
    if not where.startswith("s3://"):
        return import_path(Path(where), known)
    address = Address.parse(where)
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        return import_address(address, known, arguments.keep)
    with tempfile.TemporaryDirectory(prefix="trimtab-import-") as folder:
        return import_address(address, known, Path(folder))


def _facts(arguments: argparse.Namespace) -> StatedFacts:
    """Return the options, and what AWS's API says. Raises NotImportableError."""
    names = ["job", "provider", "service", "region", "instance_type", "purchase_option"]
    names += ["started_at", "interval_seconds"]
    said = from_document(
        {name: getattr(arguments, name) for name in names} | {"columns": dict(arguments.column)}
    )
    return said.fill_gaps_from(read_description(arguments.describe)) if arguments.describe else said


_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m advisor", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_analyse(commands)
    _add_import(commands)
    _add_predict(commands)
    return parser


def _add_analyse(commands: _Commands) -> None:
    command = commands.add_parser(
        "analyse",
        help="analyse one run of a folder",
        description="Analyses a run that an agent measured, at the bundled list prices.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(command=_analyse)
    command.add_argument(
        "folder",
        type=Path,
        metavar="RUN_DIR",
        help="an agent's state folder, or a folder of *.segment and *.declaration files",
    )
    command.add_argument("--run", type=_uuid, metavar="ID", help="the run, if there are several")
    _add_shared(command, "of every node; overrides what its agent declared")


def _add_import(commands: _Commands) -> None:
    command = commands.add_parser(
        "import",
        help="analyse a run that another tool recorded",
        description="Converts a recording, prints its cost, findings and advice at the bundled "
        "list prices, and stores nothing. Formats: see docs/importing.md.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(command=_import)
    command.add_argument(
        "path", metavar="PATH", help="a folder, one file, or s3://BUCKET/PREFIX of a training job"
    )
    command.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="with s3://: keep the files here; a second call fetches only what is missing",
    )
    command.add_argument("--job", default="", help="name of the job; default from the recording")
    command.add_argument(
        "--describe",
        type=Path,
        metavar="FILE",
        help="output of `aws sagemaker describe-training-job`, for machine, region and times",
    )
    command.add_argument(
        "--column",
        type=_mapping,
        action="append",
        default=[],
        metavar="NAME=SERIES",
        help="of a CSV file: what a column is, a series (gpu0.busy_pct) or `time`; repeatable",
    )
    command.add_argument(
        "--started-at", metavar="TIME", help="when a recording without times began, ISO 8601"
    )
    command.add_argument(
        "--interval-seconds", metavar="S", help="between its ticks, as the delay of `dcgmi dmon -d`"
    )
    _add_shared(command, "of every node; overrides --describe")


def _add_predict(commands: _Commands) -> None:
    command = commands.add_parser(
        "predict",
        help="predict the speed on other GPUs",
        description="Reads JSON lines of measurements and targets from standard input, and writes "
        "the predicted speeds and the advice as JSON lines. See docs/speed.md.",
    )
    command.set_defaults(command=_predict)


def _add_shared(command: argparse.ArgumentParser, whose: str) -> None:
    command.add_argument("--json", action="store_true", help="print a JSON document")
    command.add_argument(
        "--preset", choices=PRESETS, default=BALANCED.name, help="headroom of recommended machines"
    )
    for name in ("provider", "service", "region", "instance-type", "purchase-option"):
        command.add_argument(f"--{name}", default="", help=whose)


def _mapping(text: str) -> tuple[str, str]:
    name, _, series = text.rpartition("=")
    if not name or not series:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=SERIES")
    return name, series


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a run id") from None


def _stated(arguments: argparse.Namespace) -> NodeFacts:
    return NodeFacts(
        machine_id="",
        provider=arguments.provider,
        service=arguments.service,
        region=arguments.region,
        instance_type=arguments.instance_type,
        purchase_option=arguments.purchase_option,
    )


def _chosen(folder: Folder, run_id: UUID | None) -> StoredRun:
    """Return the chosen run. Raises FolderError if there is no such run, or several and none was
    chosen.
    """
    runs = "\n".join(f"  {run.run_id}  {run.job}" for run in folder.runs.values())
    if run_id is None and len(folder.runs) == 1:
        return next(iter(folder.runs.values()))
    if run_id is None:
        count = len(folder.runs)
        raise FolderError(f"the folder holds {count} runs; choose one with --run:\n{runs}")
    if run_id not in folder.runs:
        raise FolderError(f"the folder holds no samples of run {run_id}; it holds:\n{runs}")
    return folder.runs[run_id]


if __name__ == "__main__":
    sys.exit(main())
