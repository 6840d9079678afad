"""A real service with everything around it that can fail: network, disk, database, S3, mail."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import psycopg
import requests
from moto.server import ThreadedMotoServer

from tests.faults.agents import NumberedAgent
from tests.faults.clock import Clock, own_clock
from tests.faults.disk import Disk, small_disk
from tests.faults.network import Front, Link, Pipe
from tests.faults.postgres import Cluster
from tests.processes.person import Person
from tests.running_service import Service, free_port, kill_all, prepare, wait_until
from tests.smtp import Mailbox, mail_server

PARTS = ("web", "worker", "beat", "redis")
RECOVERY_SECONDS = 180
STARTS = 3
SUBSCRIBED_SECONDS = 7200.0
"""The time ago at which the person subscribed: longer than any jump of the clock. Who subscribed
only just is mailed nothing that was found at an earlier time of day."""
AWS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}
SMTP_WAIT = "?timeout=10"
"""Longer than the busiest machine takes to answer."""


@dataclass(frozen=True)
class Failure:
    """The time when the worker or its database failed, and the Message-IDs of mails."""

    at: float
    until: float
    sent: frozenset[str]
    """The mails that were committed as sent by then."""
    held: frozenset[str]
    """The mails that a worker held. It may send such a mail after the failure, and only then see
    that its session with the database is gone."""


@dataclass
class House:
    """One service, and handles to break it."""

    service: Service
    front: Front
    mailbox: Mailbox
    token: str = ""
    read_token: str = ""
    disk: Disk | None = None
    """The service's own small disk; None: it has none."""
    clock: Clock | None = None
    agents: list[NumberedAgent] = field(default_factory=list)
    """The agents that upload now."""
    lost_by_power: list[str] = field(default_factory=list)
    """The facts that agents had been told and no disk had afterwards."""
    cluster: Cluster | None = None
    database_link: Link | None = None
    s3: S3 | None = None
    failures: list[Failure] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    """The service's environment."""

    @property
    def data_dir(self) -> Path:
        return self.service.data_dir

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return rows of the service's database, read beside the service."""
        if self.cluster is not None:
            with psycopg.connect(self.cluster.url()) as connection:
                return connection.execute(sql).fetchall()
        address = f"file:{self.data_dir / 'trimtab.sqlite3'}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=20)) as connection:
            return connection.execute(sql).fetchall()

    def sent_mails(self) -> frozenset[str]:
        """Return the Message-IDs that are committed as sent."""
        rows = self.query("SELECT message_id FROM notify_mail WHERE state = 'sent'")
        return frozenset(message_id for (message_id,) in rows)

    def held_mails(self) -> frozenset[str]:
        """Return the Message-IDs of mails that a worker holds."""
        waiting = "SELECT message_id FROM notify_mail WHERE state = 'waiting'"
        rows = self.query(f"{waiting} AND lease IS NOT NULL")
        return frozenset(message_id for (message_id,) in rows)

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Return a JSON document of the read API."""
        answer = requests.get(
            self.service.url + path,
            params={name: str(value) for name, value in query.items()},
            headers={"Authorization": f"Bearer {self.read_token}"},
            timeout=30,
        )
        assert answer.status_code == 200, f"{answer.status_code} {path}: {answer.text[:500]}"
        return dict(answer.json())

    def recover(self) -> None:
        """Wait until everything runs and answers."""
        wait_until(self.is_whole, RECOVERY_SECONDS, "everything answers", self._state)

    def is_whole(self) -> bool:
        if any(self.service.part(name) is None for name in PARTS):
            return False
        try:
            return requests.get(f"{self.service.url}/readyz", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def _state(self) -> str:
        parts = {name: self.service.part(name) is not None for name in PARTS}
        with contextlib.suppress(requests.RequestException):
            return f"{parts} {requests.get(f'{self.service.url}/readyz', timeout=5).text}"
        return str(parts)

    def signalled(self, name: str, number: int) -> None:
        """Send a signal to a part and all its processes. Nothing if it isn't running."""
        part = self.service.part(name)
        for process in [part, *part.children(recursive=True)] if part is not None else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def start(self) -> None:
        """Start the service, also after its supervisor was killed. On a busy machine it may take
        several tries.
        """
        for _ in range(STARTS):
            try:
                self.service.start(**self.variables)
            except AssertionError as error:
                said = str(error)
            else:
                return
        raise AssertionError(f"not started in {STARTS} tries: {said}")

    def _sign_in(self) -> None:
        person = Person(self.service)
        page = person.send(
            f"{self.service.url}/settings/tokens/",
            f"{self.service.url}/settings/tokens/",
            {"name": "audit", "scopes": ["read"], "days": "365"},
        )
        found = re.search(r'data-copied="token">(tt_[A-Za-z0-9_-]+)<', page)
        assert found is not None, page
        self.read_token = found[1]
        self.token = self.service.token
        # Schedules' trainings take seconds: what they save is below any usual floor of mails.
        settings = f"{self.service.url}/settings/notifications/"
        person.send(settings, f"{settings}least/", {"least_mailed_usd": "0"})


class S3:
    """A bucket that outlives its server."""

    def __init__(self) -> None:
        self._port = free_port()
        self.start()
        self.link = Link()
        self.pipe = Pipe(("127.0.0.1", self._port), self.link)
        self.bucket = f"trimtab-{os.urandom(4).hex()}"
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self._port}",
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        client.create_bucket(Bucket=self.bucket)

    def start(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", self._port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def close(self) -> None:
        self.pipe.close()
        self.stop()

    @property
    def variables(self) -> dict[str, str]:
        address = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.pipe.port}"}
        return AWS | address | {"OBJECTS_URL": f"s3://{self.bucket}/samples"}


@contextlib.contextmanager
def house(
    database: str = "sqlite", objects: str = "folder", more: Mapping[str, str] | None = None
) -> Iterator[House]:
    """Start a house with tables and a person, on databases `sqlite` or `postgres`, objects in a
    `folder` or `s3`, and `more` variables.
    """
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="trimtab-faults-"))
        folder.chmod(0o755)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        disk = stack.enter_context(small_disk(folder / "data"))
        mailbox = Mailbox()
        mail_port = stack.enter_context(mail_server(mailbox))
        service = Service(folder / "data", has_tables=database == "sqlite")
        clock = own_clock(folder / "clock")
        made = House(service, Front(service.port), mailbox, disk=disk, clock=clock)
        stack.callback(made.front.close)
        made.variables = {"EMAIL_URL": f"smtp://127.0.0.1:{mail_port}{SMTP_WAIT}"}
        made.variables |= (clock.variables if clock else {}) | dict(more or {})
        if database == "postgres":
            _add_cluster(made, folder / "postgres", stack)
        if objects == "s3":
            made.s3 = S3()
            stack.callback(made.s3.close)
            made.variables |= made.s3.variables
        stack.callback(_end, made)
        if disk is not None and service.has_tables:
            prepare(service.data_dir)
            disk.flush()
        with clock.moved(-SUBSCRIBED_SECONDS) if clock else contextlib.nullcontext():
            made.start()
            made._sign_in()
        made.recover()
        yield made


def _add_cluster(made: House, folder: Path, stack: ExitStack) -> None:
    made.cluster, made.database_link = Cluster(folder), Link()
    stack.callback(made.cluster.stop)
    pipe = Pipe(("127.0.0.1", made.cluster.port), made.database_link)
    stack.callback(pipe.close)
    made.variables["DATABASE_URL"] = made.cluster.url(pipe.port)


def _end(made: House) -> None:
    if made.service.supervisor is None:
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        made.service.stop()
        return
    kill_all(made.service.tree())
