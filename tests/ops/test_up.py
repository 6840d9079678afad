"""A service that is started once: its output, and restarts when processes are killed."""

from __future__ import annotations

import contextlib
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis
import requests

from tests.running_service import Service, manage, wait_until
from tests.service.uploads import FakeAgent
from webapp.service import private_redis

pytestmark = pytest.mark.processes
LARGEST_IDLE_PSS_BYTES = 450_000_000
SLOW_CLIENTS = 100


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("up"), has_base_url=False, has_tables=False).start()
    yield service
    service.stop()


def test_it_answers_and_prints_both_ways_in(service: Service) -> None:
    assert service.answers()
    assert service.sign_in_link.startswith(service.url)
    assert f"TRIMTAB_URL={service.url} TRIMTAB_TOKEN={service.token} " in service.output
    assert "trimtab run -- python train.py" in service.output


def test_welcome_prints_the_address_that_the_service_has(service: Service) -> None:
    welcome = manage(service.data_dir, "welcome")
    said, _ = welcome.communicate(timeout=60)
    assert f"    {service.url}/sign-in/" in said
    assert f"TRIMTAB_URL={service.url} " in said
    link = next(word for word in said.split() if "/sign-in/" in word)
    assert requests.get(link, timeout=10).status_code == 200


def test_it_keeps_its_secrets_from_other_users(service: Service) -> None:
    for name in ("agent-token", "secret-key"):
        assert stat.S_IMODE((service.data_dir / name).stat().st_mode) == 0o600, name
    socket = private_redis.socket_path(service.data_dir)
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    for process in service.tree():
        assert service.token not in " ".join(process.cmdline())


def test_it_needs_little_memory_while_idle(service: Service) -> None:
    """The pool is included. `bench/start.py` measures it a minute after the start."""
    worker = service.part("worker")
    assert worker is not None
    wait_until(worker.children, 60, "a pool")
    used = {process.pid: process.memory_full_info().pss for process in service.tree()}
    assert sum(used.values()) < LARGEST_IDLE_PSS_BYTES, used


def test_slow_clients_do_not_stop_it(service: Service) -> None:
    """Each sends a part of a request; the web server has eight threads."""
    parts = (
        b"GET / HTTP/1.1\r\nHost: ",
        b"POST /sign-in/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nx",
    )
    with contextlib.ExitStack() as slow:
        for number in range(SLOW_CLIENTS):
            source = (f"127.1.{number}.1", 0)
            connection = socket.create_connection(("127.0.0.1", service.port), 20, source)
            slow.enter_context(connection).sendall(parts[number % 2])
        assert service.answers()
        agent = FakeAgent(_Client(service), service.token)  # type: ignore[arg-type]
        assert agent.put(agent.segment(0, last=True)).status_code == 200


class _Client:
    """A client with as much of Django's test client as an agent needs."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def put(self, path: str, body: bytes, content_type: str, headers: dict[str, str]):  # type: ignore[no-untyped-def]
        url, all_headers = self._service.url + path, headers | {"Content-Type": content_type}
        return requests.put(url, data=body, headers=all_headers, timeout=20)


def test_a_second_up_says_that_it_is_running(service: Service) -> None:
    second = manage(service.data_dir, "up", "--bind", f"127.0.0.1:{service.port}")
    output = second.communicate(timeout=120)[0]
    assert second.returncode == 0, output
    assert f"already running at {service.url}" in output


def test_a_taken_port_is_told_with_the_way_out(service: Service, tmp_path: Path) -> None:
    other = manage(tmp_path, "up", "--bind", f"127.0.0.1:{service.port}")
    output = other.communicate(timeout=120)[0]
    assert other.returncode == 1
    assert f"127.0.0.1:{service.port} is in use" in output
    assert f"--bind 127.0.0.1:{service.port + 1}" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("name", ["web", "worker", "beat", "redis"])
def test_a_killed_part_is_started_again(service: Service, name: str) -> None:
    old_pid = service.kill(name)
    wait_until(lambda: service.has_new(name, old_pid), 5, f"a new {name}")
    wait_until(service.answers, 60, "the service answers")


def test_a_killed_worker_leaves_no_pool_behind(service: Service) -> None:
    def pool() -> list[psutil.Process]:
        worker = service.part("worker")
        return worker.children() if worker else []

    wait_until(lambda: len(pool()) == 1, 60, "a pool")
    orphans = pool()
    old_pid = service.kill("worker")
    wait_until(lambda: not any(each.is_running() for each in orphans), 5, "the old pool is gone")
    wait_until(lambda: service.has_new("worker", old_pid), 5, "a new worker")


def test_what_is_queued_survives_a_killed_redis(service: Service) -> None:
    socket = str(private_redis.socket_path(service.data_dir))
    client = redis.Redis(unix_socket_path=socket)
    client.rpush("test-queue", "first", "second")
    # While the disk is slow Redis keeps what it appends for up to two seconds; once written, it
    # survives the process. What is lost before, the sweep hands out again from the rows.
    wait_until(lambda: _is_written(client), 10, "the queue is in the log")
    old_pid = service.kill("redis")
    wait_until(lambda: service.has_new("redis", old_pid), 5, "a new Redis")
    wait_until(lambda: _holds(client), 10, "the queue is back")


def _is_written(client: redis.Redis) -> bool:
    return client.info("persistence")["aof_buffer_length"] == 0


def _holds(client: redis.Redis) -> bool:
    try:
        return client.lrange("test-queue", 0, -1) == [b"first", b"second"]
    except redis.exceptions.ConnectionError:
        return False
