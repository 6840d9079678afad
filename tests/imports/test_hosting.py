"""One worker hosts the conversions of several workspaces: none waits for another one's."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from tests.imports.folders import TRAINING_JOB, sagemaker
from tests.imports.held_s3 import HeldS3, held_s3
from tests.imports.test_s3_service import ask
from tests.imports.test_service import upload
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token, Workspace
from webapp.background import claims, fairness
from webapp.imports import hosting, queue, scratch, tasks
from webapp.imports.models import Import
from webapp.quotas.models import ImportUse

pytestmark = pytest.mark.django_db


@pytest.fixture
def bucket(monkeypatch):
    with held_s3(f"bucket-{uuid4().hex[:8]}") as held:
        for name, value in held.variables.items():
            monkeypatch.setenv(name, value)
        yield held


@pytest.fixture(autouse=True)
def own_folders(settings, bucket: HeldS3, tmp_path: Path) -> None:
    settings.OBJECTS_URL = str(tmp_path / "objects")
    settings.IMPORTS_DIR = tmp_path / "imports"
    settings.IMPORT_S3 = [("*", f"s3://{bucket.bucket}")]


@pytest.fixture
def held(bucket: HeldS3, tmp_path: Path) -> Callable[[str], Import]:
    """Begins an import for a new workspace that ends only when the bucket lets go."""
    bucket.put(sagemaker(tmp_path / "made"), f"jobs/{TRAINING_JOB}")
    bucket.open_for = 0

    def begin(name: str) -> Import:
        workspace, _ = Workspace.objects.get_or_create(name=name)
        source = f"s3://{bucket.bucket}/jobs/{TRAINING_JOB}"
        begun = ask(workspace, source=source, run=str(uuid4()))
        assert begun.status_code == 202, begun.content
        return Import.objects.get(artefact__run=begun.json()["run"])

    return begin


def release_when(bucket: HeldS3, holds: Callable[[], bool]) -> threading.Thread:
    """Let the bucket go once this holds; reads no rows: the test's transaction has them."""

    def wait() -> None:
        deadline = time.monotonic() + 120
        while not holds() and time.monotonic() < deadline:
            time.sleep(0.05)
        bucket.release()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def folder_of(row: Import) -> Path:
    from django.conf import settings

    return Path(settings.IMPORTS_DIR, str(row.pk))


def test_an_import_of_a_third_workspace_does_not_wait_for_two_that_hang(held, bucket, tmp_path):
    first, second = held("First"), held("Second")
    third = Workspace.objects.create(name="Third")
    agent = FakeAgent(Client(), Token.make(third, "agent", ["ingest"])[1], job="vision")
    upload(agent, sagemaker(tmp_path / "other"), tmp_path)
    short = Import.objects.get(artefact__run__workspace=third)
    began = threading.Event()

    def short_one_is_done() -> bool:
        if folder_of(short).exists():
            began.set()
        return began.is_set() and not folder_of(short).exists() and folder_of(second).exists()

    thread = release_when(bucket, short_one_is_done)
    assert tasks.convert(first.artefact_id)
    thread.join()
    for row in (first, second, short):
        row.refresh_from_db()
        assert (row.error, row.wanted, row.lease) == ("", row.done, None)
    assert short.finished_at < first.finished_at
    assert short.finished_at < second.finished_at
    assert second.began_at < first.finished_at, "side by side"


def test_two_imports_of_one_workspace_come_one_after_the_other(held, bucket):
    first, second = held("First"), held("First")
    begun = []

    def some_seconds_have_passed() -> bool:
        begun.append(folder_of(second).exists())
        return len(begun) > 60

    thread = release_when(bucket, some_seconds_have_passed)
    assert tasks.convert(first.artefact_id)
    thread.join()
    assert not any(begun[:60])
    tasks.convert(second.artefact_id)
    first.refresh_from_db()
    second.refresh_from_db()
    assert second.began_at >= first.finished_at
    assert second.wanted == second.done


def test_imports_leave_the_last_worker_free(held, bucket):
    """Imports may take as long as they like, and as many may wait."""
    rows = [held(f"Workspace {number}") for number in range(fairness.MOST_OF_ONE + 1)]
    for row in rows[:-1]:
        assert claims.claim(queue.KIND, row.artefact_id) is not None
    long_ago = timezone.now() - timedelta(hours=1)
    Import.objects.exclude(lease=None).update(began_at=long_ago)
    assert not tasks.convert(rows[-1].artefact_id)


def test_a_lease_that_another_worker_took_ends_the_conversion(held, bucket, monkeypatch):
    row = held("First")
    monkeypatch.setattr(hosting, "RENEWED_EVERY_SECONDS", 0.5)
    looked = hosting._due

    def taken() -> list[tuple[int, int]]:
        Import.objects.update(lease=uuid4())
        return list(looked())

    monkeypatch.setattr(hosting, "_due", taken)
    assert tasks.convert(row.artefact_id)
    row.refresh_from_db()
    assert row.wanted > row.done
    assert not scratch._is_worked_in(folder_of(row))


def test_a_conversion_that_takes_too_long_is_ended_and_charged(held, bucket, monkeypatch):
    """The conversion's own process ends it earlier, unless that hangs, too."""
    row = held("First")
    monkeypatch.setattr(hosting, "KILLED_AFTER", 3 - queue.MOST_SECONDS)
    assert tasks.convert(row.artefact_id)
    row.refresh_from_db()
    assert row.given_up_at is not None
    assert "takes longer than" in row.error
    assert ImportUse.objects.get().cpu_seconds > 0.05, "its interpreter alone takes more"


def test_a_folder_in_which_a_process_still_works_is_neither_swept_nor_used(held, bucket):
    row = held("First")
    process = hosting.ConversionProcess(
        hosting.task_of(row, hosting._limits(row)), scratch.folder_of(row)
    )
    try:
        deadline = time.monotonic() + 60
        while not process.stage:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        Import.objects.update(given_up_at=timezone.now())
        scratch.tidy()
        assert folder_of(row).exists()
        Import.objects.update(given_up_at=None)
        assert tasks.convert(row.artefact_id)
        row.refresh_from_db()
        assert (row.attempts, row.lease) == (0, None)
        assert not ImportUse.objects.exists(), "it converted nothing"
        assert row.due_at > timezone.now()
    finally:
        process.kill()
    Import.objects.update(given_up_at=timezone.now())
    scratch.tidy()
    assert not folder_of(row).exists()


def test_the_time_limit_of_a_host_ends_with_it(held, bucket):
    """The process's work afterwards has limits of its own."""
    row = held("First")
    bucket.release()
    before = signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        assert tasks.convert(row.artefact_id)
        left, _ = signal.getitimer(signal.ITIMER_REAL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
    assert 500 < left < 1000
