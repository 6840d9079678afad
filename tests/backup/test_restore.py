"""The refusals of a restore before it changes anything, and what it does with what was there."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests.backup.conftest import Reads, finished_run, named_keys, stored_keys, used
from tests.backup.test_backup import assert_whole, backed_up
from tests.upgrade.reads import answers
from tests.upgrade.test_upgrade import RELEASES, _differences
from webapp import env
from webapp.runs.models import Run
from webapp.service.stack import lock_data_folder

pytestmark = pytest.mark.sampled(2)
Members = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """Return the archive's path. The first test that needs the archive makes it."""
    return tmp_path_factory.mktemp("archive") / "backup.tar"


@pytest.fixture
def whole(archive, sqlite_services) -> Path:
    if not archive.exists():
        used(sqlite_services)
        backed_up(archive)
    return archive


def restore(archive: Path, *options: str) -> str:
    output = StringIO()
    call_command("restore", str(archive), *options, stdout=output)
    return output.getvalue()


def changed(archive: Path, path: Path, change: Callable[[Members], Members]) -> Path:
    """Return a copy of an archive with other members."""
    with tarfile.open(archive) as old, tarfile.open(path, "w") as new:
        members = [(entry, old.extractfile(entry).read()) for entry in old.getmembers()]
        for entry, content in change(members):
            entry.size = 0 if entry.linkname else len(content)
            new.addfile(entry, io.BytesIO(content))
    return path


def _first_object(members: Members) -> int:
    return next(n for n, (entry, _) in enumerate(members) if entry.name.startswith("objects/"))


def _flipped(members: Members) -> Members:
    at = _first_object(members)
    entry, content = members[at]
    members[at] = entry, bytes([content[0] ^ 1, *content[1:]])
    return members


def _without(name: str) -> Callable[[Members], Members]:
    return lambda members: [each for each in members if not each[0].name.startswith(name)]


def _less_one_object(members: Members) -> Members:
    del members[_first_object(members)]
    return members


def _twice(members: Members) -> Members:
    at = _first_object(members)
    return [*members[: at + 1], members[at], *members[at + 1 :]]


def _named(name: str, **how: object) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        entry = tarfile.TarInfo(name)
        for field, value in how.items():
            setattr(entry, field, value)
        at = _first_object(members)
        return [*members[:at], (entry, b"content"), *members[at:]]

    return change


def _facts(**changes: object) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        entry, content = members[0]
        return [(entry, json.dumps(json.loads(content) | changes).encode()), *members[1:]]

    return change


REFUSED = {
    "an object with another content": (_flipped, "SHA-256 differs"),
    "an object that is missing": (_less_one_object, "SHA-256 differs|lacks members"),
    "no hashes": (_without("SHA256SUMS"), "cut off"),
    "no facts": (_without("backup.json"), "not a backup"),
    "no rows": (_without("database"), "SHA-256 differs|lacks members"),
    "an object twice": (_twice, "comes twice"),
    "a path upwards": (_named("objects/../../etc/passwd"), "no member of a backup"),
    "an absolute path": (_named("/etc/passwd"), "no member of a backup"),
    "a strange name": (_named("trimtab.sqlite3-wal"), "no member of a backup"),
    "a symbolic link": (
        _named("objects/a", type=tarfile.SYMTYPE, linkname="/etc"),
        "not a plain file",
    ),
    "a hard link": (
        _named("objects/a", type=tarfile.LNKTYPE, linkname="backup.json"),
        "not a plain file",
    ),
    "a device": (_named("objects/a", type=tarfile.CHRTYPE), "not a plain file"),
    "a later version": (_facts(trimtab="99.0.0"), r"by Trimtab 99\.0\.0(.|\n)*Update"),
    "an unknown migration": (_facts(migrations=["runs.9999_later"]), "runs.9999_later"),
    "another format": (_facts(format=2), "format 2"),
    "more facts": (_facts(extra=1), "can't be read"),
    "another engine": (_facts(engine="postgresql"), "holds a postgresql database"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_refuses_and_changes_nothing(sqlite_services, whole, tmp_path, what):
    change, why = REFUSED[what]
    bad = changed(whole, tmp_path / "bad.tar", change)
    place = sqlite_services.enter(sqlite_services.new())
    with pytest.raises(CommandError, match=why):
        restore(bad)
    assert {path.name for path in place.data_dir.iterdir()} <= {"up.lock"}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_it_refuses_an_archive_that_was_cut_off(sqlite_services, whole, tmp_path, share):
    content = whole.read_bytes()
    (tmp_path / "bad.tar").write_bytes(content[: int(len(content) * share)])
    sqlite_services.enter(sqlite_services.new())
    with pytest.raises(CommandError, match=r"not a backup|cut off|not a whole"):
        restore(tmp_path / "bad.tar")


def test_it_refuses_a_file_that_is_missing_or_something_else(sqlite_services, tmp_path):
    sqlite_services.enter(sqlite_services.new())
    with pytest.raises(CommandError, match="No such file"):
        restore(tmp_path / "missing.tar")
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(CommandError, match="not a whole tar archive"):
        restore(tmp_path / "text")


def test_a_service_in_use_is_replaced_only_if_wanted_and_kept(services, tmp_path):
    first = used(services)
    backed_up(tmp_path / "first.tar")
    second = used(services)
    run_id = finished_run(second.agent("third"))
    (second.place.data_dir / "secret-key").write_text("its key")
    before = second.answers()
    with pytest.raises(CommandError, match="is in use"):
        restore(tmp_path / "first.tar")
    assert second.answers() == before
    output = restore(tmp_path / "first.tar", "--replace")
    (aside,) = second.place.data_dir.glob("before-restore-*.tar")
    assert str(aside) in output
    assert not Run.objects.filter(pk=run_id).exists()
    assert set(Run.objects.values_list("pk", flat=True)) == set(first.runs)
    assert_whole(second.place.objects_url)
    place = services.enter(services.new())
    restore(aside)
    assert second.answers() == before
    assert (place.data_dir / "secret-key").read_text() == "its key"


def test_a_running_service_is_left_alone(sqlite_services, whole):
    sqlite_services.enter(sqlite_services.new())
    lock = lock_data_folder()
    try:
        with pytest.raises(CommandError, match="Trimtab is running at http"):
            restore(whole)
    finally:
        os.close(lock)


@pytest.mark.postgres
def test_on_postgresql_it_waits_for_nobody_who_is_connected(postgres_services, tmp_path):
    used(postgres_services)
    backed_up(tmp_path / "backup.tar")
    postgres_services.enter(postgres_services.new())
    other = connection.copy()
    other.ensure_connection()
    try:
        with pytest.raises(CommandError, match="1 other connections use the database"):
            restore(tmp_path / "backup.tar")
    finally:
        other.close()
    restore(tmp_path / "backup.tar")


@pytest.mark.postgres
def test_tables_of_others_in_the_database_stay(postgres_services, tmp_path):
    used(postgres_services)
    backed_up(tmp_path / "backup.tar")
    postgres_services.enter(postgres_services.new())
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE theirs (number integer); INSERT INTO theirs VALUES (7)")
    restore(tmp_path / "backup.tar")
    with connection.cursor() as cursor:
        cursor.execute("SELECT number FROM theirs")
        assert cursor.fetchall() == [(7,)]


@pytest.mark.postgres
def test_a_restore_that_fails_leaves_the_rows_as_they_were(postgres_services, tmp_path):
    service = used(postgres_services)
    backed_up(tmp_path / "backup.tar")
    before = service.answers()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TYPE mood AS ENUM ('ok'); ALTER TABLE runs_chunk ADD feeling mood")
        backed_up(tmp_path / "own.tar")
        cursor.execute("ALTER TABLE runs_chunk DROP feeling; DROP TYPE mood")
    with pytest.raises(CommandError, match="mood"):
        restore(tmp_path / "own.tar", "--replace")
    assert service.answers() == before


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.name)
def test_an_archive_of_an_older_version_is_migrated(sqlite_services, tmp_path, path):
    with tarfile.open(path) as packed:
        packed.extractall(tmp_path / "release", filter="data")
    data = tmp_path / "release" / "data"
    old = sqlite_services.new(str(data / "objects"), env.sqlite(data / "trimtab.sqlite3"))
    sqlite_services.enter(old)
    backed_up(tmp_path / "old.tar")
    place = sqlite_services.enter(sqlite_services.new())
    restore(tmp_path / "old.tar")
    assert named_keys() == stored_keys(place.objects_url)
    call_command("migrate", "--check", stdout=StringIO())
    before = json.loads((tmp_path / "release" / "answers.json").read_text())
    facts = json.loads((tmp_path / "release" / "facts.json").read_text())
    after = answers(Reads(facts["token"]), facts["runs"], facts["months"])  # type: ignore[arg-type]
    assert [d for address in before for d in _differences(address, before, after)] == []
