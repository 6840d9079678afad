"""An agent without waiting, and a service that loses power."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from django.test import Client
from trimtab.identity import ServiceAccess
from trimtab.spool import Spool
from trimtab.uploader import Courier
from trimtab.wire import encode_segment

from tests.running_service import Service, kill_all
from tests.service.uploads import FakeAgent

DATABASE = "trimtab.sqlite3"


class SwiftAgent:
    """The agent's own spool and uploader, with segments that need no waiting."""

    def __init__(self, folder: Path, service: Service) -> None:
        self.made = FakeAgent(Client(), "")
        self.session = str(self.made.session_id)
        self.bodies: dict[tuple[str, int], bytes] = {}
        self._spool = Spool(folder / "spool.sqlite3")
        self._courier = Courier(self._spool, ServiceAccess(service.url, service.token), print)
        self._spool.add_session(self.session, str(self.made.run_id), "")

    def declare(self, owner: str) -> None:
        self._spool.declare(self.session, self.made.declaration_body(owner=owner))

    def upload(self, *numbers: int, last: bool = False) -> None:
        for seq in numbers:
            body = encode_segment(self.made.segment(seq, last=last and seq == numbers[-1]))
            self.bodies[self.session, seq] = body
            self._spool.add(self.session, seq, body)
        while self._courier.send_one([self.session]):
            pass
        assert self._spool.contents().unsent == 0, self._courier.problem

    @property
    def sent(self) -> int:
        return self._courier.taken


def copy_data(service: Service, to: Path) -> None:
    shutil.copytree(service.data_dir / "objects", to / "objects")
    with (
        closing(sqlite3.connect(service.data_dir / DATABASE)) as live,
        closing(sqlite3.connect(to / DATABASE)) as copy,
    ):
        live.backup(copy)


def lose_power(service: Service) -> None:
    kill_all(service.tree())
    service.process.wait(30)


def restore_data(service: Service, copy: Path) -> None:
    for suffix in ("-wal", "-shm"):
        (service.data_dir / f"{DATABASE}{suffix}").unlink(missing_ok=True)
    shutil.copy(copy / DATABASE, service.data_dir / DATABASE)
    shutil.rmtree(service.data_dir / "objects")
    shutil.copytree(copy / "objects", service.data_dir / "objects")
