"""A worker is killed while it reads a job from S3: the next one goes on, and nothing differs."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from advisor.importers.stated_facts import StatedFacts
from advisor.offline.importing import import_path
from tests.imports.folders import TRAINING_JOB, sagemaker
from tests.imports.held_s3 import held_s3
from tests.processes.person import Person
from tests.running_service import Service, kill_all, wait_until

pytestmark = pytest.mark.processes
MINUTES, BEFORE = 20, 8


def query(service: Service, sql: str) -> list[tuple[Any, ...]]:
    database = service.data_dir / "trimtab.sqlite3"
    with closing(sqlite3.connect(database, timeout=20)) as rows, rows:
        return rows.execute(sql).fetchall()


def kill_worker(service: Service) -> None:
    """Kill the worker with its children, at once."""
    worker = service.part("worker")
    assert worker is not None
    kill_all([worker, *worker.children(recursive=True)])
    psutil.wait_procs([worker], timeout=10)


def test_a_killed_worker_loses_nothing_that_it_fetched(tmp_path: Path) -> None:
    folder = sagemaker(tmp_path / "made", seconds=60 * MINUTES, nodes=2)
    with held_s3("killed-in-the-middle") as s3:
        count = s3.put(folder, f"jobs/{TRAINING_JOB}")
        service = Service(tmp_path / "service")
        service.start(TRIMTAB_IMPORT_S3=f"*=s3://{s3.bucket}/jobs", **s3.variables)
        try:
            s3.open_for = BEFORE
            imports = f"{service.url}/settings/imports/"
            address = f"s3://{s3.bucket}/jobs/{TRAINING_JOB}"
            person = Person(service)
            page = person.send(imports, imports, {"source": address, "job": ""})
            assert re.search(r"(is being|waits to be) imported", page)
            (folder_of_import,) = wait_for_files(service.data_dir / "scratch" / "imports", BEFORE)
            stage = "SELECT stage FROM imports_import"
            wait_until(lambda: "Fetching" in query(service, stage)[0][0], 10, "a stage")
            shown = re.search(r"Fetching: \d+ of (\d+) files", query(service, stage)[0][0])
            assert shown is not None
            assert int(shown[1]) == count
            lease = "SELECT leased_until FROM imports_import"
            begun = query(service, lease)
            wait_until(lambda: query(service, lease) != begun, 40, "a lease though nothing comes")
            kill_worker(service)
            fetched = known(folder_of_import)
            assert len(fetched) == BEFORE < count
            asked = list(s3.got)
            s3.release()
            # As if the two minutes of its lease were over.
            query(service, "UPDATE imports_import SET leased_until = '2026-01-01 00:00:00'")
            done = "SELECT wanted = done, kills, error FROM imports_import"
            wait_until(
                lambda: query(service, done)[0][0], 240, "the import", lambda: query(service, done)
            )
            again = s3.got[len(asked) :]
            assert not [key for key in again if any(key.endswith(path) for path in fetched)]
            assert len(again) == count - len(fetched)
            (result,) = query(service, "SELECT result, run_id FROM imports_import i "
                              "JOIN runs_artefact a ON a.id = i.artefact_id")  # fmt: skip
            there = import_path(folder, StatedFacts())
            assert json.loads(result[0])["records"] == dict(there.imported.tally.records)
            assert query(service, "SELECT COUNT(*) FROM runs_run") == [(1,)]
            assert not list((service.data_dir / "scratch" / "imports").iterdir())
            chunks = "SELECT object_key FROM runs_chunk WHERE replaced_at IS NULL ORDER BY 1"
            before = query(service, chunks)
            person.send(imports, imports, {"source": address, "job": ""})
            wait_until(lambda: query(service, done)[0][0], 240, "the second import")
            time.sleep(0.5)
            assert query(service, chunks) == before
            assert query(service, "SELECT COUNT(*) FROM runs_run") == [(1,)]
        finally:
            s3.release()
            service.stop()


def wait_for_files(place: Path, count: int) -> list[Path]:
    """Return the folder of the import, once it has so many files."""

    wait_until(lambda: any(len(known(each)) >= count for each in place.glob("*")), 30, "files")
    return list(place.iterdir())


def known(folder: Path) -> list[str]:
    """Return the paths that were fetched as a whole, by the import's own list."""
    listed = folder / "fetched"
    lines = listed.read_text().splitlines() if listed.exists() else []
    return [json.loads(line)[0] for line in lines]
