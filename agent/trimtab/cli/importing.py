"""`trimtab import PATH`: uploads what another tool recorded; the service makes a run of it.

PATH may also be an address: `s3://` is read by the service, a server of Prometheus or MLflow here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from trimtab import options
from trimtab.cli import import_fetched, import_from_s3, import_waiting
from trimtab.cli.arguments import Commands, add_server_arguments, say
from trimtab.cli.import_upload import FolderUpload
from trimtab.packing import files_of

_ADDRESS = re.compile(r"[\w+.-]{2,20}:/")
_MOST_DESCRIPTION_BYTES = 4 * 1024 * 1024
_EPILOG = """
PATH is a folder or file, or an address:
  s3://BUCKET/PREFIX            the service reads it, where its operator allows it
  prometheus+https://HOST       a range query for the metrics of DCGM-exporter
  mlflow+https://HOST/#/experiments/1/runs/ID   a run, by the address of its page

The service converts the files to a run with charts, cost and findings; the run's page says what was
imported and what was skipped. It knows the profiler output of SageMaker Debugger (the folder of a
training job, or a part of it), traces of PyTorch's profiler, Nsight Systems' SQLite exports, XSpace
files of TensorFlow and JAX, DCGM's fields as JSON, what dcgmi dmon prints, Prometheus' answers with
DCGM-exporter's metrics, what nvidia-smi prints (a query as CSV, or dmon -o DT), TensorBoard's event
files, W&B's run files, and CSV files with a column of times. Of other files it says that it doesn't
know them.
Files are sent as they are, without redaction. Importing the same files again adds nothing.
Credentials of Prometheus and MLflow come from PROMETHEUS_TOKEN (or _USERNAME and _PASSWORD) and
MLFLOW_TRACKING_TOKEN (or _USERNAME and _PASSWORD). Exit code: 0 uploaded, or the service reads it;
1 kept in the spool, refused, or the other server gave no answer; 2 no such path, no files, or wrong
options. With --wait, 0 converted; 1 also if that failed; 3 not within the time.
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "import",
        help="upload a recording of another tool, which the service converts to a run",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_arguments(parser)
    parser.add_argument("path", metavar="PATH", help="a folder, one file, or an address")
    parser.add_argument("--job", help="name of the job; default from the recording")
    parser.add_argument("--run", help="run id, or any name; default derived from the content")
    parser.add_argument(
        "--describe",
        type=Path,
        metavar="FILE",
        help="output of `aws sagemaker describe-training-job`: machine, region, times, state",
    )
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="NAME=SERIES",
        help="of a CSV file: what a column is, a series (gpu0.busy_pct) or `time`; repeatable",
    )
    parser.add_argument(
        "--started-at",
        metavar="TIME",
        help="when a recording without times began, ISO 8601 (UTC if it names no zone)",
    )
    parser.add_argument(
        "--interval-seconds",
        type=float,
        metavar="S",
        help="between the ticks of a recording without times, as the delay of `dcgmi dmon -d`",
    )
    for name in ("instance-type", "region", "provider", "service", "purchase-option"):
        parser.add_argument(f"--{name}", help="of every machine; overrides --describe")
    import_waiting.add_argument(parser)
    import_fetched.add_arguments(parser)
    parser.set_defaults(handler=import_)


def import_(arguments: argparse.Namespace) -> int:
    """Return 0 if uploaded or begun, 1 if kept or refused, 2 if an option is wrong; for those who
    wait: 0 converted, 1 failed, 3 not yet."""
    try:
        said = _said(arguments)
        if arguments.path.startswith(import_from_s3.SCHEME):
            return import_from_s3.ask(arguments, said)
        if arguments.path.startswith(import_fetched.SCHEMES):
            return import_fetched.import_(arguments, said)
    except ValueError as error:
        say(str(error))
        return 2
    source = Path(arguments.path).expanduser().absolute()
    if not source.exists() and _ADDRESS.match(arguments.path):
        say(
            f"{arguments.path} can't be fetched. Download it, and import the file. Addresses that "
            "can be fetched begin with s3://, prometheus+https:// or mlflow+https://."
        )
        return 2
    if not source.exists():
        say(f"{source} doesn't exist. Name a folder or a file.")
        return 2
    if next(files_of(source), None) is None:
        say(f"{source} has no files. Name the folder of a recording; links aren't followed.")
        return 2
    server = options.server(arguments.url, arguments.token, os.environ)
    upload = FolderUpload(server, source, said["stated"]["job"])
    return upload.carry_out(arguments.run, said, arguments.wait)


def _said(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the options say of the run. Raises ValueError with a sentence."""
    return {
        "stated": {
            "job": arguments.job or os.environ.get("TRIMTAB_JOB", ""),
            "columns": _columns(arguments.column),
            **_ticks(arguments),
            **options.node_texts(vars(arguments), {}),
        },
        "describe": _described(arguments.describe),
    }


def _columns(words: list[str]) -> dict[str, str]:
    """Parse the columns. Raises ValueError."""
    pairs = [word.rpartition("=") for word in words]
    if wrong := next((word for word in pairs if not word[0] or not word[2]), None):
        raise ValueError(f"--column {''.join(wrong)} names no series. Example: GPU=gpu0.busy_pct")
    return {name: series for name, _, series in pairs}


def _ticks(arguments: argparse.Namespace) -> dict[str, object]:
    """Return what is said of a recording without times. Raises ValueError."""
    said = arguments.started_at
    found: dict[str, object] = {}
    if said is not None:
        try:
            found["started_at"] = datetime.fromisoformat(said.replace("Z", "+00:00")).isoformat()
        except ValueError:
            example = "2026-11-24T08:00:00+00:00"
            raise ValueError(f"--started-at {said} is no time. Example: {example}") from None
    if arguments.interval_seconds is not None:
        if not arguments.interval_seconds > 0:
            raise ValueError("--interval-seconds must be above 0. Example: --interval-seconds 1")
        found["interval_seconds"] = arguments.interval_seconds
    return found


def _described(path: Path | None) -> object:
    """Read the description. Raises ValueError, with a sentence."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            body = file.read(_MOST_DESCRIPTION_BYTES + 1)
        document = json.loads(body) if len(body) <= _MOST_DESCRIPTION_BYTES else None
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}.") from None
    except ValueError:
        document = None
    if not isinstance(document, dict) or "TrainingJobName" not in document:
        raise ValueError(
            f"{path} is no description of a training job. Save the output of "
            "`aws sagemaker describe-training-job --training-job-name NAME` in it."
        )
    return document
