"""The content of a backup, whatever the service does meanwhile."""

from __future__ import annotations

import hashlib
import stat
import tarfile
import threading
import time
import tomllib
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

import webapp
from advisor.store.opening import open_store
from tests.backup.conftest import (
    DAY,
    Services,
    compact,
    finished_run,
    named_keys,
    stored_keys,
    used,
)
from tests.running_service import CHECKOUT
from webapp.analysis.samples import compaction
from webapp.backup import making
from webapp.database import object_hold
from webapp.database.object_hold import BackupRunningError
from webapp.retention import deletion, rounds
from webapp.retention.models import RetentionRound
from webapp.runs.models import Run, Segment

pytestmark = pytest.mark.sampled(2)


def backed_up(path: Path, *options: str) -> str:
    output = StringIO()
    call_command("backup", str(path), *options, stdout=output)
    return output.getvalue()


def restored(services: Services, archive: Path, objects_url: str = "") -> str:
    """Restore into a new service, which is entered."""
    services.enter(services.new(objects_url))
    output = StringIO()
    call_command("restore", str(archive), stdout=output)
    return output.getvalue()


def meanwhile(at: str, does: Callable[[], object]) -> making.Stage:
    """Return a stage that does something once, when the part `at` begins."""

    def stage(title: str) -> Callable[[float], None]:
        if title == at:
            does()
        return lambda share: None

    return stage


def assert_whole(objects_url: str) -> None:
    """Check that every row's object is there, and is what the row says."""
    store = open_store(objects_url)
    assert named_keys() <= stored_keys(objects_url)
    for segment in Segment.objects.exclude(object_key=""):
        assert hashlib.sha256(store.get(segment.object_key)).hexdigest() == segment.sha256


def test_a_restored_service_answers_as_the_one_that_was_backed_up(services, tmp_path):
    service = used(services)
    before, keys = service.answers(), named_keys()
    backed_up(tmp_path / "backup.tar")
    place = services.new()
    services.enter(place)
    call_command("restore", str(tmp_path / "backup.tar"), stdout=StringIO())
    assert service.answers() == before
    assert named_keys() == keys == stored_keys(place.objects_url)
    assert_whole(place.objects_url)


def test_a_restored_service_goes_on(services, tmp_path):
    service = used(services)
    backed_up(tmp_path / "backup.tar")
    restored(services, tmp_path / "backup.tar")
    run_id = finished_run(service.agent("digits"))
    assert Run.objects.get(pk=run_id).number == 2


def test_compaction_and_deletion_in_the_middle_take_nothing_from_it(services, tmp_path):
    service = used(services)
    refused = []

    def work() -> None:
        compact(service.runs[1])
        with pytest.raises(BackupRunningError):
            compaction.delete_replaced(timezone.now() + DAY)
        refused.append(True)

    path = tmp_path / "backup.tar"
    before = named_keys()
    making.make_backup(path, making.BackupScope(True, False), meanwhile("Copying objects", work))
    assert refused
    compaction.delete_replaced(timezone.now() + DAY)
    assert not before <= stored_keys(service.place.objects_url), "now they are deleted"
    place = services.new()
    services.enter(place)
    call_command("restore", str(path), stdout=StringIO())
    assert named_keys() == before
    assert_whole(place.objects_url)


def test_retention_waits_until_a_backup_is_done(services, tmp_path):
    service = used(services)
    workspace = Run.objects.get(pk=service.runs[0]).workspace
    Run.objects.filter(pk=service.runs[0]).update(deleted_at=timezone.now() - 40 * DAY)
    rounds.queue_rounds()
    with object_hold.hold_objects():
        rounds.run_round(workspace.pk)
        row = RetentionRound.objects.get(workspace=workspace)
        assert Run.objects.filter(pk=service.runs[0]).exists()
        assert (row.attempts, row.error, row.lease) == (0, "", None)
        assert row.due_at > timezone.now()
        with pytest.raises(CommandError, match="A backup is running"):
            call_command("retention", stdout=StringIO())
    call_command("retention", stdout=StringIO())
    assert not Run.objects.filter(pk=service.runs[0]).exists()


def test_it_waits_for_a_deletion_under_way(services, tmp_path):
    """The rows are gone before it takes them, so it needs none of their objects."""
    service = used(services)
    doomed = set(Segment.objects.values_list("object_key", flat=True))
    begun, go_on = threading.Event(), threading.Event()

    def delete() -> None:
        try:
            with object_hold.deletion():
                Segment.objects.update(object_key="")
                begun.set()
                go_on.wait(20)
            for key in doomed:
                open_store(service.place.objects_url).delete(key)
        finally:
            connection.close()

    deleting = threading.Thread(target=delete)
    deleting.start()
    assert begun.wait(20)
    threading.Timer(0.5, go_on.set).start()
    backed_up(tmp_path / "backup.tar")
    assert go_on.is_set()
    deleting.join()
    restored(services, tmp_path / "backup.tar")
    assert not Segment.objects.exclude(object_key="").exists()


def test_uploads_go_on_meanwhile_and_it_is_whole(services, tmp_path):
    service = used(services)
    before = service.answers()
    stop, taken = threading.Event(), []

    def upload() -> None:
        try:
            while not stop.is_set():
                agent = service.agent("load")
                agent.declare()
                for seq in range(5):
                    assert agent.put(agent.segment(seq)).status_code == 200
                    taken.append(seq)
        finally:
            connection.close()

    loading = threading.Thread(target=upload)
    loading.start()
    try:
        for number in range(3):
            seen = len(taken)
            backed_up(tmp_path / f"{number}.tar")
            while len(taken) == seen and loading.is_alive():
                time.sleep(0.01)
    finally:
        stop.set()
        loading.join()
    for number in range(3):
        place = services.enter(services.new())
        call_command("restore", str(tmp_path / f"{number}.tar"), stdout=StringIO())
        assert_whole(place.objects_url)
        assert named_keys() == stored_keys(place.objects_url)
        after = service.answers()
        of_runs = {
            address for address in before if any(str(run) in address for run in service.runs)
        }
        assert len(of_runs) > 8
        assert {a: before[a] for a in of_runs} == {a: after[a] for a in of_runs}


def test_only_its_user_can_read_it_and_secrets_are_left_out(sqlite_services, tmp_path):
    service = used(sqlite_services)
    for name in ("secret-key", "agent-token"):
        (service.place.data_dir / name).write_text(f"the {name}")
    backed_up(tmp_path / "without.tar")
    backed_up(tmp_path / "with.tar", "--with-secrets")
    assert stat.S_IMODE((tmp_path / "with.tar").stat().st_mode) == 0o600
    assert b"the secret-key" not in (tmp_path / "without.tar").read_bytes()
    assert "no secrets" in restored(sqlite_services, tmp_path / "without.tar")
    place = sqlite_services.enter(sqlite_services.new())
    call_command("restore", str(tmp_path / "with.tar"), stdout=StringIO())
    for name in ("secret-key", "agent-token"):
        assert (place.data_dir / name).read_text() == f"the {name}"
        assert stat.S_IMODE((place.data_dir / name).stat().st_mode) == 0o600


def test_its_hashes_are_those_that_sha256sum_checks(sqlite_services, tmp_path):
    used(sqlite_services)
    backed_up(tmp_path / "backup.tar")
    with tarfile.open(tmp_path / "backup.tar") as archive:
        archive.extractall(tmp_path / "out", filter="data")
    for line in (tmp_path / "out/SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest


def test_an_object_that_is_lost_is_told_and_left_out_only_if_wanted(sqlite_services, tmp_path):
    service = used(sqlite_services)
    lost = sorted(named_keys())[0]
    open_store(service.place.objects_url).delete(lost)
    with pytest.raises(CommandError, match=f"1 objects are missing(.|\n)*{lost}"):
        backed_up(tmp_path / "backup.tar")
    assert list(tmp_path.glob("*.tar*")) == list(tmp_path.glob(".backup*")) == []
    backed_up(tmp_path / "backup.tar", "--allow-missing")
    place = sqlite_services.enter(sqlite_services.new())
    call_command("restore", str(tmp_path / "backup.tar"), stdout=StringIO())
    assert named_keys() - stored_keys(place.objects_url) == {lost}


def test_a_file_that_exists_is_never_overwritten(sqlite_services, tmp_path):
    used(sqlite_services)
    (tmp_path / "backup.tar").write_text("mine")
    with pytest.raises(CommandError, match="exists already"):
        backed_up(tmp_path / "backup.tar")
    assert (tmp_path / "backup.tar").read_text() == "mine"


def test_without_a_database_it_says_so(sqlite_services, tmp_path):
    sqlite_services.enter(sqlite_services.new())
    with pytest.raises(CommandError, match="There is no database"):
        backed_up(tmp_path / "backup.tar")


def test_of_a_bucket_it_lists_the_objects_and_wants_them_there(
    sqlite_services, bucket_url, tmp_path
):
    service = used(sqlite_services, bucket_url)
    before = service.answers()
    assert "a list of" in backed_up(tmp_path / "listed.tar")
    with tarfile.open(tmp_path / "listed.tar") as archive:
        assert not [name for name in archive.getnames() if name.startswith("objects/")]
    restored(sqlite_services, tmp_path / "listed.tar", bucket_url)
    assert service.answers() == before
    sqlite_services.enter(sqlite_services.new())
    with pytest.raises(CommandError, match="OBJECTS_URL"):
        call_command("restore", str(tmp_path / "listed.tar"), stdout=StringIO())


def test_of_a_bucket_the_objects_are_included_on_request(sqlite_services, bucket_url, tmp_path):
    service = used(sqlite_services, bucket_url)
    before = service.answers()
    backed_up(tmp_path / "whole.tar", "--with-objects")
    place = sqlite_services.enter(sqlite_services.new())
    call_command("restore", str(tmp_path / "whole.tar"), stdout=StringIO())
    assert service.answers() == before
    assert_whole(place.objects_url)
    restored(sqlite_services, tmp_path / "whole.tar", f"{bucket_url}/elsewhere")
    assert service.answers() == before


def test_archives_name_the_version_of_the_project():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert webapp.__version__ == project["version"]


def test_deleting_while_nothing_is_held_needs_no_lock_twice(services):
    """Two rounds may delete at once."""
    used(services)
    with object_hold.deletion(), object_hold.deletion():
        assert deletion.delete_orphans(timezone.now() + 2 * DAY) == []
