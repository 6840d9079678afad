"""The faults: each breaks something while its block runs, and mends it afterwards."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import psycopg
import redis

from tests.faults import flushed
from tests.faults.house import PARTS, Failure, House
from tests.faults.network import LOST, PAGES, TRUNCATED
from tests.running_service import kill_all
from webapp.service.private_redis import socket_path

Break = Callable[[House, random.Random], AbstractContextManager[None]]
TRIES, PAUSE_SECONDS = 40, 0.05
POWER, FULL, READ_ONLY = "power loss", "full disk", "read-only objects"
CLOCK = "the service's clock jumps"
CLOCK_JUMPS_SECONDS = (-3600.0, -600.0, -30.0, 30.0, 600.0, 3600.0)


def kinds(house: House) -> dict[str, Break]:
    """Return name -> what breaks; those that this machine and this service can have."""
    found: dict[str, Break] = {}
    for part in PARTS:
        found[f"kill {part}"] = partial(_killed, part)
        found[f"stop {part}"] = partial(_stopped, part)
        found[f"restart {part}"] = partial(_restarted, part)
    found["kill everything"] = _all_killed
    found["Redis out of memory"] = _redis_full
    found["partition agents"] = _agents_cut_off
    for lie in (*PAGES, TRUNCATED, LOST):
        found[lie] = partial(_lying, lie)
    if house.clock is not None:
        found[CLOCK] = _clock_jumped
    if house.disk is not None:
        found[FULL] = _disk_full
    if house.disk is not None and house.s3 is None:
        found[READ_ONLY] = _objects_read_only
    if house.disk is not None and house.cluster is None:
        found[POWER] = _power_lost
    if house.s3 is not None:
        found["S3 away"] = _s3_away
        found["partition S3"] = _s3_cut_off
    if house.cluster is not None:
        found["terminate database sessions"] = _sessions_terminated
        found["crash database"] = _database_crashed
        found["partition database"] = _database_cut_off
    return found


def missing(house: House) -> list[str]:
    """Return the faults that need more than this machine allows."""
    without_disk = [] if house.disk is not None else [FULL, READ_ONLY, POWER]
    return without_disk + ([] if house.clock is not None else [CLOCK])


@contextlib.contextmanager
def _mail_may_repeat(house: House) -> Iterator[None]:
    """Allow repeated mails, for faults that can fall between the mail server's answer and our
    commit.
    """
    began, sent, held = time.monotonic(), _known(house.sent_mails), _known(house.held_mails)
    try:
        yield
    finally:
        held |= _known(house.held_mails)
        house.failures.append(Failure(began, time.monotonic(), sent, held))


def _known(mails: Callable[[], frozenset[str]]) -> frozenset[str]:
    """Return the mails, or none if nobody can tell, for example because the database is down as
    well.
    """
    with contextlib.suppress(Exception):
        return mails()
    return frozenset()


@contextlib.contextmanager
def _supervisor_waits(house: House) -> Iterator[None]:
    assert house.service.supervisor is not None
    pid = house.service.supervisor.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def _killed(part: str, house: House, chance: random.Random) -> Iterator[None]:
    """`kill -9`; nobody starts it again meanwhile."""
    with _mail_may_repeat(house), _supervisor_waits(house):
        if (process := house.service.part(part)) is not None:
            kill_all([process])
        yield


@contextlib.contextmanager
def _stopped(part: str, house: House, chance: random.Random) -> Iterator[None]:
    with _mail_may_repeat(house):
        house.signalled(part, signal.SIGSTOP)
        try:
            yield
        finally:
            house.signalled(part, signal.SIGCONT)


@contextlib.contextmanager
def _restarted(part: str, house: House, chance: random.Random) -> Iterator[None]:
    with _mail_may_repeat(house):
        if (process := house.service.part(part)) is not None:
            process.terminate()
        yield


@contextlib.contextmanager
def _all_killed(house: House, chance: random.Random) -> Iterator[None]:
    with _mail_may_repeat(house):
        for process in house.service.tree():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        yield
    house.service.process.wait(30)
    house.start()


@contextlib.contextmanager
def _power_lost(house: House, chance: random.Random) -> Iterator[None]:
    """Stop everything at once; only what was flushed is there afterwards."""
    assert house.disk is not None
    with _mail_may_repeat(house):
        house.disk.lose_power()
        kill_all(house.service.tree())
        house.service.process.wait(30)
        _until_powered_up(house)
        house.lost_by_power += flushed.missing(house)
        yield
    house.start()


def _until_powered_up(house: House) -> None:
    """Power the disk up, if need be by several tries: killed processes may keep files open."""
    assert house.disk is not None
    for _ in range(TRIES):
        with contextlib.suppress(subprocess.CalledProcessError):
            house.disk.power_up()
            return
        time.sleep(PAUSE_SECONDS)
    raise AssertionError("the disk is still in use")


@contextlib.contextmanager
def _clock_jumped(house: House, chance: random.Random) -> Iterator[None]:
    assert house.clock is not None
    with _mail_may_repeat(house), house.clock.moved(chance.choice(CLOCK_JUMPS_SECONDS)):
        yield


@contextlib.contextmanager
def _redis_full(house: House, chance: random.Random) -> Iterator[None]:
    _set_redis_memory(house, "1mb")
    try:
        yield
    finally:
        _set_redis_memory(house, "0")


def _set_redis_memory(house: House, size: str) -> None:
    """Set Redis' memory, whatever other faults do to Redis at the same time; a new Redis has its
    own setting.
    """
    client = redis.Redis(unix_socket_path=str(socket_path(house.data_dir)), socket_timeout=1)
    with contextlib.closing(client), contextlib.suppress(redis.RedisError):
        client.config_set("maxmemory", size)


@contextlib.contextmanager
def _disk_full(house: House, chance: random.Random) -> Iterator[None]:
    assert house.disk is not None
    balloon = house.disk.folder / "balloon"
    with _mail_may_repeat(house):
        _fill(balloon, chance.choice([0, 0, 20_000, 200_000]))
        try:
            yield
        finally:
            balloon.unlink()


def _fill(balloon: Path, left_bytes: int) -> None:
    """Leaves so many bytes of its disk."""
    with balloon.open("wb") as file:
        state = os.statvfs(file.fileno())
        free_bytes = state.f_bavail * state.f_frsize
        with contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(free_bytes - left_bytes, 1))


@contextlib.contextmanager
def _objects_read_only(house: House, chance: random.Random) -> Iterator[None]:
    folder = str(house.data_dir / "objects")
    Path(folder).mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        _remount_read_only(folder)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _remount_read_only(folder: str) -> None:
    """Mount a folder read-only. The kernel refuses that while a file is open for writing."""
    command = ["mount", "-o", "remount,bind,ro", folder]
    for _ in range(TRIES):
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(PAUSE_SECONDS)
    raise AssertionError(f"{folder} can't be made read-only")


@contextlib.contextmanager
def _s3_away(house: House, chance: random.Random) -> Iterator[None]:
    assert house.s3 is not None
    house.s3.stop()
    try:
        yield
    finally:
        house.s3.start()


def _s3_cut_off(house: House, chance: random.Random) -> AbstractContextManager[None]:
    assert house.s3 is not None
    return house.s3.link.partitioned(resets=chance.random() < 0.5)


def _agents_cut_off(house: House, chance: random.Random) -> AbstractContextManager[None]:
    return house.front.link.partitioned(resets=chance.random() < 0.5)


def _lying(lie: str, house: House, chance: random.Random) -> AbstractContextManager[None]:
    return house.front.lying(lie)


@contextlib.contextmanager
def _sessions_terminated(house: House, chance: random.Random) -> Iterator[None]:
    assert house.cluster is not None
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    others += " WHERE datname = 'trimtab' AND pid <> pg_backend_pid()"
    with _mail_may_repeat(house):
        with psycopg.connect(house.cluster.url()) as connection:
            connection.execute(others)
        yield


@contextlib.contextmanager
def _database_crashed(house: House, chance: random.Random) -> Iterator[None]:
    assert house.cluster is not None
    with _mail_may_repeat(house):
        house.cluster.crash()
        yield


@contextlib.contextmanager
def _database_cut_off(house: House, chance: random.Random) -> Iterator[None]:
    assert house.database_link is not None
    with (
        _mail_may_repeat(house),
        house.database_link.partitioned(resets=chance.random() < 0.5),
    ):
        yield
