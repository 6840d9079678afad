"""`trimtab import PATH`: uploads what another tool recorded; the service makes a run of it."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from datetime import datetime
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from trimtab import identity, options
from trimtab.cli.arguments import Commands, add_server_arguments, say
from trimtab.identity import Server
from trimtab.packing import Parts, content_digest
from trimtab.spool import Spool, open_spool
from trimtab.uploader import Courier
from trimtab.wire import job_of_training

WHOLE, PART = "import", "import-part"
_PATIENCE_SECONDS = 60.0
_MOST_DESCRIPTION_BYTES = 4 * 1024 * 1024
_EPILOG = """
The service converts the files to a run with charts, cost and findings; the run's page says what was
imported and what was skipped. It knows the profiler output of SageMaker Debugger (the folder of a
training job, or a part of it), traces of PyTorch's profiler, Nsight Systems' SQLite exports, XSpace
files of TensorFlow and JAX, DCGM's fields as JSON, what dcgmi dmon prints, Prometheus' answers with
DCGM-exporter's metrics, what nvidia-smi prints (a query as CSV, or dmon -o DT), TensorBoard's event
files, W&B's run files, and CSV files with a column of times. Of other files it says that it doesn't
know them.
Files are sent as they are, without redaction. Importing the same files again adds nothing. Exit
code: 0 uploaded; 1 kept in the spool, or refused; 2 no such path, or wrong options.
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "import",
        help="upload a recording of another tool, which the service converts to a run",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_arguments(parser)
    parser.add_argument("path", type=Path, metavar="PATH", help="a folder, or one file")
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
    parser.set_defaults(handler=import_)


def import_(arguments: argparse.Namespace) -> int:
    """Returns 0 if uploaded, 1 if kept in the spool or refused, 2 if an option is wrong."""
    source: Path = arguments.path.absolute()
    server = options.server(arguments.url, arguments.token, os.environ)
    if not source.exists():
        say(f"{source} doesn't exist. Name a folder or a file.")
        return 2
    try:
        described, columns = _described(arguments.describe), _columns(arguments.column)
        ticks = _ticks(arguments)
    except ValueError as error:
        say(str(error))
        return 2
    said = arguments.job or os.environ.get("TRIMTAB_JOB", "")
    upload = _Upload(server, source, said)
    document = {
        "version": 1,
        "name": source.name,
        "stated": {
            "job": said,
            "columns": columns,
            **ticks,
            **options.node_texts(vars(arguments), {}),
        },
        "describe": described,
    }
    return upload.carry_out(arguments.run, document)


class _Upload:
    """Packs and sends part by part, so that any size needs little room."""

    def __init__(self, server: Server, source: Path, said_job: str) -> None:
        self._server, self._source = server, source
        self._job = identity.shortened(said_job or job_of_training(_folder_name(source)))
        self._spool: Spool = open_spool()
        self._session = str(uuid4())
        self._courier = Courier(self._spool, server, say) if server.url else None

    def carry_out(self, said_run: str | None, document: dict[str, object]) -> int:
        run = self._run(said_run)
        self._spool.add_session(self._session, str(run), self._server.destination)
        try:
            with tempfile.TemporaryDirectory(prefix="trimtab-import-") as folder:
                return self._packed(Path(folder), run, document)
        finally:
            self._spool.release(self._session)

    def _packed(self, folder: Path, run: UUID, document: dict[str, object]) -> int:
        name, parts, size_bytes = self._source.name, [], 0
        for number, part in enumerate(Parts(self._source, folder), start=1):
            parts.append(part.sha256)
            size_bytes += part.size_bytes
            if not self._add(PART, part.path, f"{name}.tar.gz.{number:03d}"):
                return 1
            if self._is_full():
                say(
                    "the service doesn't answer, and the spool can't keep all parts: "
                    f"{self._courier.problem if self._courier else 'no service is set'}. Import "
                    "the folder again when it does."
                )
                return 1
        whole = folder / "description"
        whole.write_text(json.dumps({**document, "parts": parts}, sort_keys=True))
        if not self._add(WHOLE, whole, f"{name}.import.json"):
            return 1
        print(f"packed {size_bytes} bytes for run {run} of job {self._job}")
        return self._sent(run)

    def _add(self, kind: str, path: Path, name: str) -> bool:
        if not self._spool.artefacts.add(self._session, kind, path, name, self._job):
            problem = self._spool.problem
            say(f"there is no folder for the spool: {problem}. Set TRIMTAB_STATE_DIR.")
            return False
        self._send(0.0)
        return True

    def _is_full(self) -> bool:
        """Whether a further part would push an unsent one out of the spool."""
        if self._spool.artefacts.has_room():
            return False
        self._send(_PATIENCE_SECONDS)
        return not self._spool.artefacts.has_room()

    def _send(self, patience_seconds: float) -> None:
        """Send what waits. At the first failure, try again for so long."""
        courier = self._courier
        if courier is None:
            return
        until = time.monotonic() + patience_seconds
        while (sent := courier.send_one([self._session])) is not None:
            if sent is False and (courier.not_allowed or time.monotonic() >= until):
                return
            time.sleep(max(0.0, min(courier.not_before, until) - time.monotonic()))

    def _sent(self, run: UUID) -> int:
        if self._courier is None:
            say("kept in the spool: no service is set. Set TRIMTAB_URL and run `trimtab sync`.")
            return 1
        self._send(_PATIENCE_SECONDS)
        if self._courier.refused:
            return 1
        if self._spool.artefacts.count([self._session]):
            say(f"kept in the spool: {self._courier.problem}. Run `trimtab sync` later.")
            return 1
        print(self._server.page(run))
        return 0

    def _run(self, said: str | None) -> UUID:
        if said:
            return identity.run_id(self._server, {"TRIMTAB_RUN": said})
        digest = content_digest(self._source)
        return uuid5(NAMESPACE_URL, f"{self._server.destination}/import/{digest}")


def _columns(words: list[str]) -> dict[str, str]:
    """Raises ValueError."""
    pairs = [word.rpartition("=") for word in words]
    if wrong := next((word for word in pairs if not word[0] or not word[2]), None):
        raise ValueError(f"--column {''.join(wrong)} names no series. Example: GPU=gpu0.busy_pct")
    return {name: series for name, _, series in pairs}


def _ticks(arguments: argparse.Namespace) -> dict[str, object]:
    """What is said of a recording without times. Raises ValueError."""
    said = arguments.started_at
    found: dict[str, object] = {}
    if said is not None:
        try:
            found["started_at"] = datetime.fromisoformat(said.replace("Z", "+00:00")).isoformat()
        except ValueError:
            example = "2026-11-24T08:00:00+00:00"
            raise ValueError(f"--started-at {said} is no time. Example: {example}") from None
    if arguments.interval_seconds is not None:
        found["interval_seconds"] = arguments.interval_seconds
    return found


def _described(path: Path | None) -> object:
    """Raises ValueError, with a sentence."""
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


def _folder_name(source: Path) -> str:
    """The job's folder, if a part of it is imported."""
    inner = ("profiler-output", "rule-output", "system", "framework")
    return next((p.name for p in (source, *source.parents) if p.name not in inner), source.name)
