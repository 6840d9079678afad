"""Paths of artefacts: compared by their bytes, and found by an index."""

from __future__ import annotations

import time
import unicodedata
from uuid import UUID

import pytest
from django.db import connection

from tests.cpu_time import is_within
from tests.mlflow.client import STORE
from webapp.mlflow_api.models import LoggedFile
from webapp.runs.models import Artefact

pytestmark = pytest.mark.django_db
MOST_CPU_SECONDS = 0.15
"""The most CPU of a page."""
NFC, NFD = (unicodedata.normalize(form, "modèle") for form in ("NFC", "NFD"))
ALIKE = [
    ("Model", "model"),
    ("MODÈLE", "modèle"),
    (NFC, NFD),
    ("mode_", "model"),
    ("mode%", "model"),
    ("%", "x"),
    ("a", "a0"),
    ("a", "a-"),
    ("a", "a b"),
    ("a", "ab"),
    ("a", "A"),
    ("é", "f"),
    ("Z", "a"),
    ("😀", "\uffdc"),
]


@pytest.fixture
def run_id(mlflow) -> str:
    return str(mlflow.start())


@pytest.fixture
def place(mlflow, run_id) -> str:
    """Return the root of the run's files."""
    return str(mlflow.run(run_id)["info"]["artifact_uri"].removeprefix("mlflow-artifacts:/"))


def _url(path: str) -> str:
    return path.replace("%", "%25")


@pytest.mark.parametrize(("one", "other"), [*ALIKE, *((b, a) for a, b in ALIKE)])
def test_a_folder_is_listed_and_deleted_without_one_that_looks_alike(mlflow, place, one, other):
    for folder in (one, other):
        mlflow.put_file(_url(f"{place}/{folder}/in/w.bin"), folder.encode())
        mlflow.put_file(_url(f"{place}/{folder}/w.bin"), folder.encode())
    size = len(one.encode())
    assert mlflow.files(f"{place}/{one}") == [("in", None), ("w.bin", size)]
    assert dict(mlflow.files(place)) == {one: None, other: None}
    mlflow.client.delete(f"{STORE}/{_url(f'{place}/{one}')}", headers=mlflow.headers)
    assert mlflow.files(f"{place}/{one}") == []
    assert mlflow.files(place) == [(other, None)]
    kept = mlflow.get_file(_url(f"{place}/{other}/in/w.bin"))
    assert b"".join(kept.streaming_content) == other.encode()


def test_a_file_and_a_folder_of_the_same_name_are_both_listed(mlflow, place):
    for path in ("a", "a/b", "a.txt", "a0", "b/c", "b/d"):
        mlflow.put_file(f"{place}/{path}", b"x")
    names = [("a", 1), ("a.txt", 1), ("a", None), ("a0", 1), ("b", None)]
    assert mlflow.files(place) == names


def test_many_files_of_a_folder_are_all_listed(mlflow, run_id, place):
    _add(
        mlflow, run_id, place, [f"f{n:04}" for n in range(250)] + [f"g/{n:04}" for n in range(250)]
    )
    names = [f"f{n:04}" for n in range(250)] + ["g", "one"]
    assert [name for name, _ in mlflow.files(place)] == names
    assert len(mlflow.files(f"{place}/g")) == 250


@pytest.mark.parametrize("count", [25_000, pytest.param(500_000, marks=pytest.mark.long)])
def test_a_run_of_500_000_files_is_listed_within_the_budget_of_a_page(mlflow, run_id, place, count):
    folders, each = [f"checkpoints/{n:02}" for n in range(50)], range(count // 50)
    _add(mlflow, run_id, place, [f"{f}/shard-{n:05}" for f in folders for n in each])
    for folder, expected in [("", 2), ("/checkpoints", 50)]:
        mlflow.files(f"{place}{folder}")
        begun = time.process_time()
        listed = mlflow.files(f"{place}{folder}")
        assert is_within(time.process_time() - begun, MOST_CPU_SECONDS)
        assert len(listed) == expected
    mlflow.put_file(f"{place}/Checkpoints", b"x")
    begun = time.process_time()
    mlflow.client.delete(f"{STORE}/{place}/one", headers=mlflow.headers)
    assert is_within(time.process_time() - begun, MOST_CPU_SECONDS)


def test_an_index_finds_the_files_of_a_folder(mlflow, run_id, place):
    _add(mlflow, run_id, place, [f"a/{n}" for n in range(3)])
    mlflow.files(f"{place}/a")
    within = LoggedFile.objects.filter(
        tracked=UUID(run_id), model="", path__gte="a/", path__lt="a0"
    ).order_by("path")
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    plan = within.explain()
    assert "path>?" in plan or "(path)::text >= 'a/'" in plan, plan


def _add(mlflow, run_id: str, place: str, paths: list[str]) -> None:
    """Add more files than any client may upload: all of one content."""
    mlflow.put_file(f"{place}/one", b"x")
    artefact, own = Artefact.objects.get(), UUID(run_id)
    rows = (LoggedFile(tracked_id=own, path=path, artefact=artefact) for path in paths)
    LoggedFile.objects.bulk_create(rows, batch_size=10_000)
