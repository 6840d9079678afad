"""Real workers pull from one database: nothing is done twice, and a kill costs one row its time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psutil
import psycopg
import pytest
from celery import Celery
from psycopg import sql

from tests.running_service import CHECKOUT, manage, prepare, wait_until
from webapp.http import redis_outage
from webapp.service import private_redis

pytestmark = pytest.mark.processes
POSTGRES_URL = os.environ.get("TRIMTAB_TEST_POSTGRES_URL", "")
PATIENCE_SECONDS = 90
PROCESSES = 2

ROWS = """
import sys
from datetime import timedelta
from django.utils import timezone
from webapp.accounts.models import Workspace
from webapp.rulebook.models import Rejudging
since = timezone.now() - timedelta(minutes=1)
for number in range({count}):
    workspace = Workspace.objects.create(name="{prefix}" + str(number))
    Rejudging.objects.create(
        workspace=workspace, wanted=1, due_at=since + timedelta(milliseconds=number)
    )
"""
STATE = """
from webapp.rulebook.models import Rejudging
import json
rows = Rejudging.objects.values_list("workspace__name", "wanted", "done", "kills", "attempts")
print("ROWS" + json.dumps(list(rows)))
"""
CONNECTIONS = """
SELECT application_name FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
"""


@dataclass
class Place:
    """A database and a Redis, and the workers that were started on them."""

    data_dir: Path
    variables: dict[str, str]
    redis: subprocess.Popen[bytes] | None = None
    workers: list[psutil.Popen] = field(default_factory=list)

    def run(self, code: str) -> str:
        done = manage(self.data_dir, "shell", "-c", code, **self.variables)
        output = done.communicate(timeout=120)[0]
        assert done.returncode == 0, output
        return output

    def make(self, count: int, prefix: str = "") -> None:
        self.run(ROWS.format(count=count, prefix=prefix))

    def rows(self) -> dict[str, tuple[int, int, int, int]]:
        """Return workspace -> wanted, done, kills, attempts."""
        line = next(x for x in self.run(STATE).splitlines() if x.startswith("ROWS"))
        return {name: tuple(rest) for name, *rest in json.loads(line.removeprefix("ROWS"))}

    def done(self) -> list[str]:
        """Return what was worked on to its end, in turn, by whichever process."""
        file = self.data_dir / "done"
        return [line.split()[1] for line in file.read_text().splitlines()] if file.exists() else []

    def begun(self) -> list[tuple[int, str]]:
        """Return process and workspace, in turn."""
        file = self.data_dir / "begun"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(line.split()[0]), line.split()[1]) for line in lines]

    def start_redis(self) -> None:
        server = private_redis.find_server()
        assert server is not None
        command = private_redis.command(server, self.data_dir)
        self.redis = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def start_worker(self) -> psutil.Popen:
        command = [sys.executable, "-m", "celery", "-A", "tests.processes.slow", "worker"]
        process = psutil.Popen(
            [*command, "--pool=prefork", f"--concurrency={PROCESSES}", "--loglevel=INFO"],
            cwd=CHECKOUT,
            env=os.environ | self.variables | {"TRIMTAB_DATA_DIR": str(self.data_dir)},
            stderr=(self.data_dir / f"worker-{len(self.workers)}.log").open("wb"),
            stdout=subprocess.DEVNULL,
        )
        self.workers.append(process)
        return process

    def sweep(self) -> None:
        """Do what beat does every 5 s."""
        url = self.variables["REDIS_URL"].replace("unix://", "redis+socket://")
        broker = Celery(broker=url)
        broker.conf.broker_transport_options = {"global_keyprefix": "trimtab:"}
        broker.send_task("background.sweep", queue="schedule")
        time.sleep(1)

    def messages(self) -> int:
        """Return the number of messages that wait for a worker."""
        return int(redis_outage.client(self.variables["REDIS_URL"]).llen("trimtab:work"))

    def connections(self) -> set[str]:
        """Return what PostgreSQL calls the connections of the workers."""
        if "DATABASE_URL" not in self.variables:
            return set()
        with psycopg.connect(self.variables["DATABASE_URL"], application_name="test") as own:
            return {name for (name,) in own.execute(CONNECTIONS)} - {"test"}

    def stop(self) -> None:
        for worker in self.workers:
            with suppress(psutil.NoSuchProcess):
                for process in [*worker.children(recursive=True), worker]:
                    process.kill()
                worker.wait(20)
        if self.redis is not None:
            self.redis.terminate()
            self.redis.wait(20)


def _place(data_dir: Path, **variables: str) -> Iterator[Place]:
    variables |= {"REDIS_URL": private_redis.url(data_dir), "SLOW_FOLDER": str(data_dir)}
    place = Place(data_dir, variables | {"DJANGO_SETTINGS_MODULE": "webapp.settings"})
    place.start_redis()
    try:
        yield place
    finally:
        place.stop()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Place]:
    data_dir = tmp_path / "data"
    prepare(data_dir)
    yield from _place(data_dir)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[Place]:
    if not POSTGRES_URL:
        pytest.skip("TRIMTAB_TEST_POSTGRES_URL names no PostgreSQL server")
    name = sql.Identifier(f"pulling_{uuid4().hex[:8]}")
    with psycopg.connect(POSTGRES_URL, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
    url = f"{POSTGRES_URL.rsplit('/', 1)[0]}/{name.as_string(None).strip(chr(34))}"
    (tmp_path / "data").mkdir(mode=0o700)
    try:
        migrated = manage(tmp_path / "data", "migrate", "--verbosity", "0", DATABASE_URL=url)
        assert migrated.wait(200) == 0, migrated.stdout.read() if migrated.stdout else ""
        yield from _place(tmp_path / "data", DATABASE_URL=url)
    finally:
        with psycopg.connect(POSTGRES_URL, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest) -> Place:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.mark.sampled(2)
def test_two_workers_do_each_row_once_and_all_processes_help(place):
    place.make(40)
    for _ in range(2):
        place.start_worker()
    wait_until(lambda: len(place.begun()) >= 1 or place.sweep(), PATIENCE_SECONDS, "a begin")
    most, connections = 0, set()
    while len(place.done()) < 40:
        most = max(most, place.messages())
        connections |= place.connections()
        time.sleep(0.02)
    assert most <= 1, "a message wakes, it doesn't name rows"
    assert Counter(place.done()) == Counter(str(number) for number in range(40))
    assert set(place.rows().values()) == {(1, 1, 0, 0)}
    assert len({pid for pid, _ in place.begun()}) == 2 * PROCESSES
    assert place.done()[0] in {str(number) for number in range(2 * PROCESSES)}, "first come"
    assert connections == ({"trimtab worker"} if "DATABASE_URL" in place.variables else set())


def test_a_kill_in_the_middle_costs_the_row_at_hand_and_no_other(sqlite):
    sqlite.make(30)
    sqlite.start_worker()
    wait_until(lambda: len(sqlite.done()) >= 3 or sqlite.sweep(), PATIENCE_SECONDS, "some done")
    pid = sqlite.begun()[-1][0]
    os.kill(pid, signal.SIGKILL)
    at_hand = [name for process, name in sqlite.begun() if process == pid][-1]

    def all_done() -> bool:
        sqlite.sweep()
        return len(set(sqlite.done())) == 30

    wait_until(all_done, PATIENCE_SECONDS, "all done", sqlite.begun)
    rows = sqlite.rows()
    assert {done for _, done, _, _ in rows.values()} == {1}
    again = {name for name, times in Counter(n for _, n in sqlite.begun()).items() if times > 1}
    assert again <= {at_hand}
    assert set(Counter(sqlite.done()).values()) == {1}


@pytest.mark.long
def test_while_the_broker_is_down_rows_only_wait(sqlite):
    sqlite.start_worker()
    sqlite.make(1, "first ")
    wait_until(lambda: sqlite.done() or sqlite.sweep(), PATIENCE_SECONDS, "the first is done")
    assert sqlite.redis is not None
    sqlite.redis.kill()
    sqlite.redis.wait(20)
    sqlite.make(5, "second")
    time.sleep(2)
    assert len(sqlite.done()) == 1
    sqlite.start_redis()
    wait_until(lambda: len(sqlite.done()) == 6 or sqlite.sweep(), PATIENCE_SECONDS, "the others")
    assert set(sqlite.rows().values()) == {(1, 1, 0, 0)}
