"""Imports from S3 by the service: only what the operator allows, and the same run each time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from tests.html import read_page
from tests.imports.folders import DESCRIBED, TRAINING_JOB, sagemaker
from tests.imports.held_s3 import HeldS3, held_s3
from webapp.accounts.models import Membership, Token, User, Workspace
from webapp.imports import hosting, queue, tasks
from webapp.imports.models import Import
from webapp.runs.models import Artefact, Chunk, Node, Run, Session

pytestmark = pytest.mark.django_db
PREFIX = f"jobs/{TRAINING_JOB}"


@pytest.fixture
def bucket(monkeypatch):
    with held_s3(f"secret-bucket-{uuid4().hex[:8]}") as held:
        for name, value in held.variables.items():
            monkeypatch.setenv(name, value)
        yield held


@pytest.fixture
def ours(db) -> Workspace:
    return Workspace.objects.create(name="Ours")


@pytest.fixture(autouse=True)
def granted(settings, bucket: HeldS3, ours: Workspace, tmp_path: Path) -> None:
    settings.OBJECTS_URL = str(tmp_path / "objects")
    settings.IMPORTS_DIR = tmp_path / "imports"
    settings.IMPORT_S3 = [(str(ours.uuid), f"s3://{bucket.bucket}/jobs")]


@pytest.fixture
def job(bucket: HeldS3, tmp_path: Path) -> str:
    """Return the address of a job's folder in S3."""
    bucket.put(sagemaker(tmp_path / "made"), PREFIX)
    return f"s3://{bucket.bucket}/{PREFIX}"


def ask(workspace: Workspace, scope: str = Token.WRITE, **said: Any):  # type: ignore[no-untyped-def]
    token = Token.make(workspace, "script", [scope])[1]
    headers = {"Authorization": f"Bearer {token}"}
    return Client().post("/api/v1/imports", said, "application/json", headers=headers)


def read(workspace: Workspace, run: str) -> list[dict[str, Any]]:
    token = Token.make(workspace, "reader", [Token.READ])[1]
    headers = {"Authorization": f"Bearer {token}"}
    found: list[dict[str, Any]] = (
        Client().get(f"/api/v1/runs/{run}/imports", headers=headers).json()
    )
    return found


def work() -> Import:
    """Do what a worker does with the only import."""
    row = Import.objects.get()
    tasks.convert(row.artefact_id)
    row.refresh_from_db()
    return row


def page(workspace: Workspace, role: str, path: str) -> str:
    user = User.objects.create_user(f"{role}-{uuid4().hex[:6]}@example.org")
    Membership.objects.create(user=user, workspace=workspace, role=role)
    client = Client()
    client.force_login(user)
    return read_page(client.get(path))


def test_a_job_in_s3_becomes_a_run(ours, job, settings):
    answer = ask(ours, source=job, describe=DESCRIBED)
    assert answer.status_code == 202, answer.content
    begun = answer.json()
    assert (begun["state"], begun["records"]) == ("due", 0)
    done = work()
    assert done.error == ""
    (line,) = read(ours, begun["run"])
    assert (line["state"], line["format"]) == ("done", "SageMaker Debugger")
    assert line["records"] == 360 * 9 + 170
    run = Run.objects.get()
    assert (str(run.pk), run.job.name, run.parameters) == (begun["run"], "vision", {"epochs": "3"})
    assert run.duration is not None
    assert run.duration.total_seconds() == 300
    assert not list(Path(settings.IMPORTS_DIR).iterdir()), "what was fetched is gone"


def test_the_same_again_is_the_same_run_and_changes_nothing(ours, job):
    first = ask(ours, source=job).json()
    work()
    chunks = set(Chunk.objects.values_list("object_key", flat=True))
    again = ask(ours, source=f"{job}/").json()
    assert again["run"] == first["run"]
    assert again["state"] == "due"
    work()
    kept = Chunk.objects.filter(replaced_at=None)
    assert set(kept.values_list("object_key", flat=True)) == chunks
    assert Run.objects.count() == Artefact.objects.count() == 1


def test_a_workspace_imports_with_its_own_grants_only(ours, job, bucket, settings):
    theirs = Workspace.objects.create(name="Theirs")
    refused = ask(theirs, source=job)
    assert refused.status_code == 403
    assert "TRIMTAB_IMPORT_S3" in refused.json()["detail"]
    for source in (f"s3://{bucket.bucket}/other/x", f"s3://{bucket.bucket}", "s3://another/jobs/x"):
        assert ask(ours, source=source).status_code == 403
    assert ask(ours, source="https://example.org").status_code == 422
    assert bucket.got == []
    assert not Import.objects.exists()
    settings.IMPORT_S3 = [("*", f"s3://{bucket.bucket}")]
    assert ask(theirs, source=job).status_code == 202


def test_a_grant_that_is_gone_when_the_worker_begins_counts_no_more(ours, job, bucket, settings):
    ask(ours, source=job)
    settings.IMPORT_S3 = []
    failed = work()
    assert failed.given_up_at is not None
    assert "may not import from there" in failed.error
    assert bucket.got == []


def test_another_workspace_s_run_is_not_written_to(ours, job, settings):
    theirs = Workspace.objects.create(name="Theirs")
    settings.IMPORT_S3 = [("*", job)]
    run = ask(theirs, source=job).json()["run"]
    assert ask(ours, source=job, run=run).status_code == 404
    assert ask(ours, source=job).json()["run"] != run


@pytest.mark.parametrize("scope", [Token.INGEST, Token.READ])
def test_it_takes_a_token_that_may_change_things(ours, job, scope):
    assert ask(ours, scope, source=job).status_code == 403


def test_only_owners_see_which_buckets_there_are(ours, job, bucket):
    ask(ours, source=job)
    bucket.denies = True
    failed = work()
    assert "access denied" in failed.error
    path = f"/runs/{Run.objects.get().pk}/"
    assert bucket.bucket in page(ours, Membership.OWNER, path)
    assert bucket.bucket in page(ours, Membership.OWNER, "/settings/imports/")
    for role in (Membership.MEMBER, Membership.VIEWER):
        seen = page(ours, role, path)
        assert "Access denied" in seen
        assert bucket.bucket not in seen
        assert bucket.bucket not in page(ours, role, "/settings/imports/")
    (artefact,) = Artefact.objects.all()
    stored = Path(f"{_objects(artefact)}").read_bytes()
    assert bucket.bucket.encode() not in stored


def _objects(artefact: Artefact) -> Path:
    from django.conf import settings

    return Path(settings.OBJECTS_URL, artefact.object_key)


def test_an_owner_begins_an_import_on_the_page(ours, job, client):
    owner = User.objects.create_user("ada@example.org")
    Membership.objects.create(user=owner, workspace=ours, role=Membership.OWNER)
    client.force_login(owner)
    refused = client.post("/settings/imports/", {"source": "s3://another/jobs/x"})
    assert "may not import from there" in read_page(refused)
    begun = client.post("/settings/imports/", {"source": f" {job} ", "job": "digits"})
    run = Run.objects.get()
    assert begun["Location"] == f"/runs/{run.pk}/"
    assert "waits to be imported: 1st in line" in read_page(client.get(begun["Location"]))
    work()
    run.refresh_from_db()
    assert run.job.name == "digits"
    assert Artefact.objects.get().created_by == owner


def test_s3_that_is_away_is_tried_again_and_then_goes_on(ours, job, bucket, monkeypatch):
    ask(ours, source=job)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    waiting = work()
    assert (waiting.given_up_at, waiting.attempts) == (None, 1)
    assert "S3 doesn't answer" in waiting.error
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.url)
    assert work().error == ""
    assert len(bucket.got) == 5


@pytest.fixture
def interrupted(bucket: HeldS3) -> Iterator[Callable[[BaseException], None]]:
    """Return a function that raises an exception in the worker, as a signal does, once it asked for
    three objects.
    """
    before = signal.getsignal(signal.SIGUSR1)

    def interrupt(error: BaseException) -> None:
        def handle(*_: object) -> None:
            raise error

        signal.signal(signal.SIGUSR1, handle)
        bucket.open_for = bucket.interrupted_after = 3

    yield interrupt
    signal.signal(signal.SIGUSR1, before)


def test_a_worker_on_another_machine_starts_over_and_makes_the_same_run(
    ours, job, bucket, settings, tmp_path, interrupted
):
    """The first worker dies in the middle, with its disk."""
    whole = ask(ours, source=job).json()["run"]
    interrupted(SystemExit())
    with pytest.raises(SystemExit):
        work()
    assert list(Path(settings.IMPORTS_DIR).iterdir())
    bucket.release()
    asked = len(bucket.got)
    settings.IMPORTS_DIR = tmp_path / "of another machine"
    Import.objects.update(leased_until=timezone.now() - timedelta(minutes=1))
    done = work()
    assert done.error == ""
    assert len(set(bucket.got[asked:])) == 5, "all of them"
    assert done.result["records"] == {"samples": 360 * 9, "steps": 170}
    run = Run.objects.get()
    assert str(run.pk) == whole
    assert Node.objects.count() == Session.objects.count() == 1
    chunks = set(Chunk.objects.filter(replaced_at=None).values_list("object_key", flat=True))
    ask(ours, source=job)
    work()
    again = set(Chunk.objects.filter(replaced_at=None).values_list("object_key", flat=True))
    assert again == chunks


def test_an_import_that_took_too_long_can_be_asked_for_again(
    ours, job, bucket, settings, monkeypatch
):
    run = ask(ours, source=job).json()["run"]
    bucket.open_for = 3
    monkeypatch.setattr(queue, "MOST_SECONDS", 5)
    monkeypatch.setattr(hosting, "KILLED_AFTER", 0)
    ended = work()
    assert "takes longer than 5 s" in ended.error
    assert ended.given_up_at is not None
    assert not list(Path(settings.IMPORTS_DIR).iterdir())
    bucket.release()
    monkeypatch.setattr(queue, "MOST_SECONDS", 3600)
    assert ask(ours, source=job).json()["run"] == run
    done = work()
    assert (done.error, done.given_up_at) == ("", None)
    assert done.result["records"] == {"samples": 360 * 9, "steps": 170}
    assert not list(Path(settings.IMPORTS_DIR).iterdir())


def test_what_nobody_carries_on_with_is_removed(ours, job, settings):
    left = Path(settings.IMPORTS_DIR, "999999")
    left.mkdir(parents=True)
    (left / "file").write_text("x")
    ask(ours, source=job)
    work()
    assert not left.exists()


@pytest.mark.parametrize(
    "grant", ["s3://bucket", "Ours=s3://bucket", "*=https://bucket", "*=s3://", "*=bucket"]
)
def test_a_setting_that_is_no_grant_is_refused(grant, monkeypatch):
    from django.core.exceptions import ImproperlyConfigured

    from webapp import env

    monkeypatch.setenv("TRIMTAB_IMPORT_S3", f"*=s3://fine/prefix,{grant}")
    with pytest.raises(ImproperlyConfigured, match="WORKSPACE=s3://BUCKET/PREFIX"):
        env.grants("TRIMTAB_IMPORT_S3")
