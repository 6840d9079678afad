"""An uploaded folder becomes a run: sent in parts, converted by a worker, priced and judged."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone
from trimtab.packing import Parts

from advisor.importers.stated_facts import StatedFacts
from advisor.offline.analysis import report_of
from advisor.offline.importing import import_path
from advisor.sizing.demand import BALANCED
from tests.html import read_page
from tests.imports import messages, test_dcgm_dmon
from tests.imports.folders import DESCRIBED, TRAINING_JOB, sagemaker
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Membership, Token, User, Workspace
from webapp.analysis import tasks as analyses
from webapp.imports import tasks
from webapp.imports.models import Import
from webapp.runs.models import Artefact, Chunk, Run, Session

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def objects_in_a_folder_of_their_own(settings, tmp_path):
    settings.OBJECTS_URL = str(tmp_path / "objects")


@pytest.fixture
def agent(db) -> FakeAgent:
    workspace = Workspace.objects.create(name="Ours")
    return FakeAgent(Client(), Token.make(workspace, "agent", ["ingest"])[1], job="vision")


def upload(
    agent: FakeAgent, folder: Path, tmp_path: Path, part_bytes: int = 2_000, **said: Any
) -> None:
    """Upload a folder like `trimtab import`, in small parts."""
    packed = tmp_path / f"parts-{uuid4()}"
    packed.mkdir()
    sent = []
    for number, part in enumerate(Parts(folder, packed, part_bytes=part_bytes)):
        sent.append(part.sha256)
        put(agent, part.path.read_bytes(), "import-part", f"{folder.name}.tar.gz.{number}")
    assert len(sent) > 1
    describe(agent, folder.name, sent, **said)


def describe(agent: FakeAgent, name: str, parts: list[str], **said: Any) -> None:
    body = json.dumps({"version": 1, "name": name, "parts": parts, **said}).encode()
    put(agent, body, "import", f"{name}.import.json")


def put(agent: FakeAgent, body: bytes, kind: str, name: str) -> None:
    answer = agent.put_artefact(body, kind=kind, name=name)
    assert answer.status_code == 200, answer.content


def work() -> Import:
    """Do what a worker does with the only import."""
    row = Import.objects.get()
    tasks.convert(row.artefact_id)
    row.refresh_from_db()
    return row


def test_a_folder_becomes_a_priced_and_judged_run(agent, tmp_path):
    upload(agent, sagemaker(tmp_path), tmp_path, describe=DESCRIBED)
    done = work()
    assert (done.error, done.wanted) == ("", done.done)
    assert done.result["records"] == {"samples": 360 * 9, "steps": 170}
    assert done.result["skipped"] == []
    run = Run.objects.get()
    analyses.evaluate(str(run.pk))
    run.refresh_from_db()
    assert (run.job.name, run.state, run.tags) == (
        "vision",
        "finished",
        {"training job": TRAINING_JOB},
    )
    assert run.parameters == {"epochs": "3"}
    assert run.duration is not None
    assert run.duration.total_seconds() == 300, "as billed, not as sampled"
    assert run.cost_usd == (Decimal("3.825") * 300 / 3600).quantize(Decimal("0.000000001"))
    states = dict(run.judgements.values_list("rule", "state"))
    assert states["low_gpu_utilization"] != "insufficient_data"
    assert run.summary.steps == 170


def test_a_coarse_recording_is_judged_as_without_a_service(agent, tmp_path):
    """The grid is that of its own samples: a minute between two of them isn't 59 s without any."""
    folder = tmp_path / "coarse"
    folder.mkdir()
    chance = random.Random(0)
    times = [1_767_225_600_000 + 60_000 * minute for minute in range(120)]
    columns = {
        "Timestamp": times,
        "DCGMI - GPU Utilization": [99 - minute % 7 for minute in range(120)],
        "DCGMI - Power Usage": [chance.uniform(200, 300) for _ in range(120)],
    }
    (folder / "gpu0.json").write_text(json.dumps(columns))
    upload(agent, folder, tmp_path, part_bytes=500)
    assert work().error == ""
    run = Run.objects.get()
    analyses.evaluate(str(run.pk))
    offline = import_path(folder, StatedFacts())
    report = report_of(offline.run, offline.timeline, BALANCED, timezone.now())
    here = {row.rule: (row.state, row.summary) for row in run.judgements.all()}
    there = {j.rule_id: (j.verdict.state, j.verdict.summary) for j in report.judgements}
    assert here == there


def test_the_same_folder_again_adds_nothing(agent, tmp_path):
    folder = sagemaker(tmp_path)
    upload(agent, folder, tmp_path)
    work()
    chunks = set(Chunk.objects.values_list("object_key", flat=True))
    upload(agent, folder, tmp_path)
    row = work()
    assert row.wanted == row.done
    Import.objects.update(wanted=row.wanted + 1)
    work()
    assert Run.objects.count() == Session.objects.count() == 1
    kept = Chunk.objects.filter(replaced_at=None)
    assert set(kept.values_list("object_key", flat=True)) == chunks


def test_what_the_person_says_of_times_places_a_recording_without_any(agent, tmp_path):
    folder = tmp_path / "dmon"
    folder.mkdir()
    test_dcgm_dmon.written(folder)
    stated = {"started_at": "2026-11-24T08:00:00+00:00", "interval_seconds": 60}
    upload(agent, folder, tmp_path, part_bytes=50, stated=stated)
    assert work().error == ""
    run = Run.objects.get()
    assert run.started_at == test_dcgm_dmon.STARTED
    assert run.duration is not None
    assert run.duration.total_seconds() == 60


def test_metrics_and_parameters_of_a_tracker_are_those_of_the_run(agent, tmp_path):
    """There isn't a single sample."""
    folder = tmp_path / "run-1"
    values = [messages.scalar("val_loss", 1 / (n + 1), n, 60 * n) for n in range(10)]
    messages.event_file(folder, messages.session({"lr": 0.125}), *values)
    upload(agent, folder, tmp_path, part_bytes=100)
    row = work()
    assert (row.error, row.result["records"]) == ("", {"metrics": 10, "parameters": 1})
    run = Run.objects.get()
    analyses.evaluate(str(run.pk))
    run.refresh_from_db()
    assert run.parameters == {"lr": 0.125}
    assert run.metrics == {"val_loss": pytest.approx(0.1)}
    assert run.duration is not None
    assert run.duration.total_seconds() == 540


def test_it_waits_for_parts_that_come_late(agent, tmp_path):
    packed = tmp_path / "parts"
    packed.mkdir()
    parts = [p.path.read_bytes() for p in Parts(sagemaker(tmp_path), packed, part_bytes=2_000)]
    describe(agent, "late", [hashlib.sha256(part).hexdigest() for part in parts])
    waiting = work()
    assert waiting.wanted > waiting.done
    assert "haven't arrived" in waiting.stage
    for part in parts:
        put(agent, part, "import-part", "part")
    done = work()
    assert (done.wanted, done.stage) == (done.done, "")


def test_what_nobody_knows_is_said_and_is_not_tried_again(agent, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "readme.txt").write_text("hello " * 10_000)
    (folder / "random").write_bytes(hashlib.sha512(b"x").digest() * 1)
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        archive.add(folder, arcname=".")
    put(agent, body.getvalue(), "import", "notes.tar.gz")
    failed = work()
    assert failed.given_up_at is not None
    assert "no known format in its 2 files" in failed.error
    assert Artefact.objects.count() == 1, "the files are kept"
    assert not Session.objects.exists()


def test_the_page_of_a_failed_import_says_so_first(agent, tmp_path, client):
    """The page doesn't say, minutes later, that an agent is silent."""
    (tmp_path / "notes.txt").write_text("hello")
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        archive.add(tmp_path / "notes.txt", arcname="notes.txt")
    put(agent, body.getvalue(), "import", "notes.tar.gz")
    run = Run.objects.get()
    user = User.objects.create_user("ada@example.org")
    Membership.objects.create(user=user, workspace=run.workspace, role=Membership.OWNER)
    client.force_login(user)
    assert "notes.tar.gz waits to be imported: 1st in line" in _summary(client, run)
    work()
    Run.objects.update(state=Run.LOST)
    said = _summary(client, run)
    assert "The import of notes.tar.gz failed" in said
    assert "Known formats: " in said
    assert read_page(client.get(f"/runs/{run.pk}/")).count("Known formats: ") == 1
    assert "No contact with the agent" not in said


def _summary(client: Client, run: Run) -> str:
    """Return the page before its charts."""
    return read_page(client.get(f"/runs/{run.pk}/")).partition('id="charts"')[0]


def test_an_upload_without_files_says_so(agent):
    body = io.BytesIO()
    tarfile.open(fileobj=body, mode="w:gz").close()
    put(agent, body.getvalue(), "import", "nothing.tar.gz")
    assert "there are no files in it" in work().error


def hostile() -> dict[str, bytes]:
    """Return archives that would leave the folder, follow links, or fill the disk."""

    def made(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
        body = io.BytesIO()
        with tarfile.open(fileobj=body, mode="w:gz") as archive:
            for info, content in members:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return body.getvalue()

    def named(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        return info

    long_header = tarfile.TarInfo("x")
    long_header.type, long_header.size = tarfile.XHDTYPE, 2**40
    return {
        "traversal": made((named("../../outside"), b"x"), (named("/trimtab-outside"), b"x")),
        "links": made((named("a", tarfile.SYMTYPE, "/etc"), b""), (named("a/passwd"), b"x")),
        "hard link": made((named("a", tarfile.LNKTYPE, "/etc/passwd"), b"")),
        "device": made((named("a", tarfile.CHRTYPE), b"")),
        "header": gzip.compress(long_header.tobuf() + b"\0" * 4096),
        "not gzip": b"nothing",
        "cut off": made((named("a"), b"x" * 10**6))[:-20],
    }


@pytest.mark.parametrize("name", sorted(hostile()))
def test_a_hostile_archive_harms_nothing(agent, tmp_path, name):
    put(agent, hostile()[name], "import", "x.tar.gz")
    failed = work()
    assert failed.given_up_at is not None
    assert failed.error
    assert not Path("/trimtab-outside").exists()


def test_the_page_says_what_came_and_asks_for_the_machine(agent, tmp_path, client):
    from webapp.accounts.models import Membership, User

    folder = sagemaker(tmp_path)
    broken = next(folder.rglob("*.algo-1.json"))
    broken.write_bytes(broken.read_bytes()[:-20])
    upload(agent, folder, tmp_path)
    work()
    run = Run.objects.get()
    analyses.evaluate(str(run.pk))
    user = User.objects.create_user("ada@example.org")
    Membership.objects.create(user=user, workspace=run.workspace, role=Membership.OWNER)
    client.force_login(user)
    page = read_page(client.get(f"/runs/{run.pk}/"))
    assert "Imported from <span" in page
    assert "3,409 records, 1 skipped" in page
    assert "not a whole record of JSON" in page
    assert "On which machine did this run?" in page
    said = {"instance_type": "ml.p3.2xlarge", "region": "us-west-2", "purchase_option": "on_demand"}
    client.post(f"/runs/{run.pk}/machine/", said)
    run.refresh_from_db()
    assert run.cost_usd is not None
    assert "On which machine" not in read_page(client.get(f"/runs/{run.pk}/"))
