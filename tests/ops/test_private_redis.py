"""The place of the private Redis, and the options with which it starts."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

import kombu
import pytest
import redis
from django.core.cache.backends.redis import RedisCache
from hypothesis import given
from hypothesis import strategies as st
from limits import RateLimitItemPerMinute
from limits.storage import RedisStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from tests.running_service import wait_until
from webapp.service import private_redis

LINUX_LIMIT_BYTES = 108


def bundled() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        return private_redis.find_server() or ""


def servers() -> list[str]:
    """Return the one on the PATH, if any, and the bundled one."""
    on_path = (shutil.which(name) for name in ("redis-server", "valkey-server"))
    return [server for server in (*on_path, bundled()) if server]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="trimtab-redis-") as folder:
        yield Path(folder)


@contextmanager
def running(server: str, folder: Path) -> Iterator[redis.Redis]:
    process = subprocess.Popen(private_redis.command(server, folder), stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(unix_socket_path=str(private_redis.socket_path(folder))) as client:
            wait_until(lambda: _answers(client), 10, "Redis answers")
            yield client
    finally:
        process.terminate()
        process.wait(10)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.exceptions.ConnectionError:
        return False


def _fake_server(path: Path, version: str) -> None:
    path.write_text(f'#!/bin/sh\necho "Redis server v={version} sha=0:0"\n')
    path.chmod(0o755)


@given(st.lists(st.text("abcdé", min_size=1, max_size=40), max_size=12))
def test_its_socket_path_is_short_enough_for_any_data_folder(parts: list[str]) -> None:
    path = private_redis.socket_path(Path("/").joinpath(*parts))
    assert len(os.fsencode(path)) < LINUX_LIMIT_BYTES - 1


def test_two_deep_data_folders_have_two_sockets(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30)
    assert private_redis.socket_path(deep / "a") != private_redis.socket_path(deep / "b")


def test_it_never_listens_on_a_port_and_loses_nothing(tmp_path: Path) -> None:
    words = private_redis.command("redis-server", tmp_path)
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options["--port"] == "0"
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"
    assert stat.S_IMODE((tmp_path / "redis").stat().st_mode) == 0o700


def test_a_socket_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "redis").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    with pytest.raises(PermissionError, match="belongs to another user"):
        private_redis.command("redis-server", tmp_path)


def test_without_one_on_the_path_the_bundled_one_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = private_redis.find_server()
    assert found == bundled()
    assert os.access(found, os.X_OK)


@pytest.mark.parametrize("version", ["6.0.16", "5.0.7", "unknown"])
def test_an_old_server_on_the_path_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    _fake_server(tmp_path / "redis-server", version)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert private_redis.find_server() == bundled()


def test_a_new_server_on_the_path_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_server(tmp_path / "redis-server", "6.2.14")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert private_redis.find_server() == str(tmp_path / "redis-server")


REFUSED = [
    "CONFIG GET dir",
    "CONFIG SET dir /tmp",
    "MODULE LIST",
    "DEBUG SLEEP 0",
    "ACL LIST",
    "FLUSHALL",
    "KEYS *",
    "MONITOR",
    "REPLICAOF 127.0.0.1 1",
    "SAVE",
    "SHUTDOWN NOSAVE",
    "MIGRATE 127.0.0.1 1 key 0 10",
]


@pytest.mark.parametrize("server", servers())
def test_it_refuses_commands_that_reach_beyond_its_keys(folder: Path, server: str) -> None:
    with running(server, folder) as client:
        for command in REFUSED:
            with pytest.raises(redis.exceptions.ResponseError, match=r"permissions|not allowed"):
                client.execute_command(*command.split())
        with pytest.raises(redis.exceptions.ResponseError):
            client.eval("return redis.call('config', 'get', 'dir')", 0)


@pytest.mark.parametrize("server", servers())
def test_celery_the_cache_and_the_rate_limits_can_do_their_work(folder: Path, server: str) -> None:
    with running(server, folder) as client:
        url = private_redis.url(folder)
        limiter = SlidingWindowCounterRateLimiter(RedisStorage(url))
        assert limiter.hit(RateLimitItemPerMinute(1), "somebody")
        assert not limiter.hit(RateLimitItemPerMinute(1), "somebody")
        cache = RedisCache(url, {})
        cache.set("key", "value", timeout=5)
        assert cache.get("key") == "value"
        with kombu.Connection(url.replace("unix://", "redis+socket://")) as connection:
            queue = connection.SimpleQueue("queue")
            queue.put({"id": 1})
            message = queue.get(timeout=5)
            message.ack()
            queue.close()
        with client.lock("restore", timeout=5):
            pass
        assert message.payload == {"id": 1}


@pytest.mark.parametrize(("writer", "reader"), list(permutations(servers(), 2)))
def test_another_server_reads_what_was_queued(folder: Path, writer: str, reader: str) -> None:
    with running(writer, folder) as client:
        client.rpush("queue", "first", "second")
    with running(reader, folder) as client:
        assert client.lrange("queue", 0, -1) == [b"first", b"second"]


@pytest.mark.parametrize("server", servers())
@pytest.mark.parametrize("torn", [b"", b"*2\r\n$3\r\nSE"], ids=["whole", "torn"])
def test_it_starts_again_after_a_power_loss_that_left_zeros(
    server: str, torn: bytes, folder: Path
) -> None:
    """A file system may have flushed the size of an appended file and not its last content."""
    with running(server, folder) as client:
        client.set("queued", "1")
    (log,) = (folder / "redis" / "appendonlydir").glob("*.incr.aof")
    with log.open("ab") as file:
        file.write(torn + bytes(514))
    with running(server, folder) as client:
        assert client.get("queued") == b"1"
