"""Nobody but its user reads what the service keeps, whatever the umask."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.utils import ConnectionHandler
from trimtab.spool.spool import Spool

from advisor.store.folder import FolderStore
from tests.running_service import Service, manage
from tests.upgrade.uploads import send
from webapp import checks, env, private_files
from webapp.sample_data.load import uploads_of
from webapp.sample_data.published import published_runs

PRINT_READABLE = 'for path; do test -r "$path" && echo "$path"; done; true'
PRIVATE = ["trimtab.sqlite3", "secret-key", "agent-token", "objects", "logs", "redis", "up.lock"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a folder that everybody may enter; the folders of pytest itself are closed."""
    with tempfile.TemporaryDirectory(prefix="trimtab-private-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def readable_by_nobody(data: Path) -> list[str]:
    """Return those of the folder and everything in it that the user `nobody` can read."""
    paths = [data, *data.rglob("*")]
    assert len(paths) > 10
    command = ["/bin/sh", "-c", PRINT_READABLE, "sh", *map(str, paths)]
    printed = subprocess.run(
        command,
        user="nobody",
        group="nogroup",
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return printed.stdout.splitlines()


@pytest.mark.processes
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_reads_nothing_of_a_running_service(place):
    with umask(0):
        service = Service(place / "data").start()
    try:
        (run, *_) = published_runs("private")
        for upload in uploads_of(run):
            send(service.url, service.token, upload)
        assert readable_by_nobody(service.data_dir) == []
        assert mode(service.data_dir) == 0o700
        service.data_dir.chmod(0o755)
        readable = [Path(found) for found in readable_by_nobody(service.data_dir)]
        private = {service.data_dir / name for name in PRIVATE}
        assert [path for path in readable if private & {path, *path.parents}] == []
        database = service.data_dir / "trimtab.sqlite3"
        # The two files beside it are gone whenever nobody has it open.
        with closing(sqlite3.connect(database)) as held:
            held.execute("SELECT 1 FROM runs_run").fetchall()
            for suffix in ("", "-wal", "-shm"):
                assert mode(Path(f"{database}{suffix}")) == 0o600
    finally:
        service.stop()


@pytest.mark.processes
@pytest.mark.long
def test_a_folder_that_was_open_is_closed_at_the_start_and_told(place):
    data = place / "data"
    data.mkdir()
    data.chmod(0o755)
    (data / "trimtab.sqlite3").touch()
    (data / "trimtab.sqlite3").chmod(0o644)
    service = Service(data).start()
    service.stop()
    assert mode(data) == 0o700
    assert mode(data / "trimtab.sqlite3") == 0o600
    assert f"{data} had mode 0755 and has 0700 now." in service.output


@pytest.mark.parametrize("mask", [0, 0o022, 0o277])
def test_modes_do_not_depend_on_the_umask(tmp_path, mask):
    with umask(mask & 0o077):
        private_files.make_folder(tmp_path / "a" / "data")
        private_files.make_file(tmp_path / "a" / "data" / "secret")
        FolderStore(tmp_path / "a" / "data" / "objects").put("runs/1/2.segment", b"body")
    assert mode(tmp_path / "a" / "data") == 0o700
    assert mode(tmp_path / "a" / "data" / "secret") == 0o600
    objects = tmp_path / "a" / "data" / "objects"
    assert {mode(path) for path in (objects, objects / "runs", objects / "runs/1")} == {0o700}
    assert mode(objects / "runs/1/2.segment") == 0o600


def test_a_database_and_what_is_beside_it_is_private_from_the_start(tmp_path, django_db_blocker):
    handler = ConnectionHandler({"default": env.sqlite(tmp_path / "rows.sqlite3")})
    with umask(0), django_db_blocker.unblock():
        connection = handler["default"]
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE numbers (number integer)")
        modes = {path.name: mode(path) for path in tmp_path.iterdir()}
        connection.close()
    assert modes == {f"rows.sqlite3{suffix}": 0o600 for suffix in ("", "-wal", "-shm")}
    assert "default" in connections


def test_the_spool_of_an_agent_and_its_files_are_private(tmp_path):
    with umask(0):
        source = tmp_path / "trace"
        source.write_bytes(b"trace")
        state = tmp_path / "state"
        state.mkdir(mode=0o777)
        spool = Spool(state / "spool.sqlite3")
        assert spool.artefacts.add("session", "profile", source, "trace")
    (kept,) = (state / "artefacts").iterdir()
    assert mode(kept) == 0o600
    assert mode(state / "artefacts") == 0o700


@pytest.fixture
def databases(settings, monkeypatch):
    """Let a test say where the database is."""
    monkeypatch.setitem(settings.DATABASES, "default", settings.DATABASES["default"])


def found(settings, data: Path) -> list[tuple[str, str]]:
    settings.DATA_DIR = data
    settings.OBJECTS_URL = str(data / "objects")
    settings.DATABASES["default"] = env.sqlite(data / "trimtab.sqlite3")
    return [(message.id, message.hint) for message in checks.files_are_private()]


def test_the_check_names_what_is_open_and_the_command_that_closes_it(tmp_path, settings, databases):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    assert found(settings, data) == []
    (data / "secret-key").touch(mode=0o600)
    (data / "objects").mkdir(mode=0o700)
    assert found(settings, data) == []
    (data / "secret-key").chmod(0o644)
    (data / "objects").chmod(0o755)
    hints = [hint for id_, hint in found(settings, data) if id_ == "trimtab.W002"]
    for hint in hints:
        subprocess.run(hint.split("`")[1].split(), check=True)
    assert len(hints) == 2
    assert found(settings, data) == []


def test_what_a_group_alone_may_read_is_mentioned_and_left_as_it_is(tmp_path, settings, databases):
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o2750)
    ((id_, hint),) = found(settings, data)
    assert id_ == "trimtab.I001"
    assert f"chmod 2700 {data}" in hint
    assert not private_files.find_exposed([data])[0].is_open_to_all
    call_command("check", "--tag", "security", "--fail-level", "WARNING")


def test_a_secret_key_that_a_power_loss_emptied_is_made_anew(tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "secret-key").touch(mode=0o600)
    said = manage(data, "diffsettings", "--all", SECRET_KEY="")
    assert said.communicate(timeout=60)[0]
    assert said.returncode == 0
    assert len((data / "secret-key").read_text()) == 50
    assert mode(data / "secret-key") == 0o600
    assert {path.name for path in data.iterdir() if "secret" in path.name} == {"secret-key"}
