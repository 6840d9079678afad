"""`trimtab import prometheus+URL` and `mlflow+URL`: fetches, and uploads what the server says."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from trimtab import options
from trimtab.cli.arguments import say
from trimtab.cli.import_upload import FolderUpload
from trimtab.fetching import mlflow, prometheus
from trimtab.fetching.server import FetchError, Server, authorization

_PROMETHEUS = ("prometheus+http://", "prometheus+https://")
_MLFLOW = ("mlflow+http://", "mlflow+https://")
SCHEMES = (*_PROMETHEUS, *_MLFLOW)
NOT_FETCHED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("of a Prometheus server")
    group.add_argument(
        "--query", default=prometheus.DEFAULT_QUERY, help="PromQL; default %(default)s"
    )
    group.add_argument(
        "--start", metavar="TIME", help="with its time zone, as in 2026-11-01T08:00:00Z"
    )
    group.add_argument("--end", metavar="TIME", help="default now")
    group.add_argument("--step", default="15s", help="between two samples; default %(default)s")


def import_(arguments: argparse.Namespace, said: dict[str, Any]) -> int:
    """Import what a server says, and return the exit code. Raises ValueError with a sentence if an
    option is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-fetch-") as folder:
        try:
            if arguments.path.startswith(_MLFLOW):
                source, run = _mlflow(arguments, Path(folder), said)
            else:
                source, run = _prometheus(arguments, Path(folder)), arguments.run
        except FetchError as error:
            say(str(error))
            return NOT_FETCHED
        server = options.server(arguments.url, arguments.token, os.environ)
        upload = FolderUpload(server, source, said["stated"]["job"])
        return upload.carry_out(run, said, arguments.wait)


def _prometheus(arguments: argparse.Namespace, folder: Path) -> Path:
    """Return the folder of the answers."""
    if not arguments.start:
        raise ValueError("--start says from when. Example: --start 2026-11-01T08:00:00Z.")
    start = prometheus.moment(arguments.start)
    # Whole seconds, so that a second call within one asks for the same.
    end = prometheus.moment(arguments.end) if arguments.end else float(int(time.time()))
    if end <= start:
        raise ValueError("--end is not after --start.")
    asked = prometheus.QueryRange(start, end, prometheus.step_seconds(arguments.step))
    server = _server(arguments.path, "prometheus+", prometheus.PREFIX)
    into = folder / f"prometheus-{server.host}"
    into.mkdir()
    count = prometheus.fetch(server, arguments.query, asked, into)
    print(f"fetched {count} answer{'' if count == 1 else 's'} from {server.host}")
    return into


def _mlflow(arguments: argparse.Namespace, folder: Path, said: dict[str, Any]) -> tuple[Path, str]:
    """Return the folder of the run, and what names it. The job is its experiment, if none is
    said.
    """
    url, run_id = mlflow.address(arguments.path)
    server = _server(url, "mlflow+", mlflow.PREFIX)
    into = folder / f"mlflow-{run_id}"
    into.mkdir()
    experiment = mlflow.fetch(server, run_id, into)
    said["stated"]["job"] = said["stated"]["job"] or experiment
    print(f"fetched run {run_id} from {server.host}")
    return into, arguments.run or f"mlflow/{run_id}"


def _server(url: str, scheme: str, prefix: str) -> Server:
    return Server(url[len(scheme) :], authorization(os.environ, prefix), prefix)
