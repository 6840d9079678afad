"""The sockets on which the web server listens."""

from __future__ import annotations

import asyncio
import socket
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.service.test_web_server import Nothing
from webapp.web_server import __main__ as main
from webapp.web_server.answering import Answering
from webapp.web_server.connections import Connections
from webapp.web_server.server import WebServer


def _hello(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [f"from {environ['REMOTE_ADDR'] or 'nowhere'}".encode()]


async def _asked(listening: socket.socket, path: Path) -> bytes:
    front = WebServer(Answering(_hello, 1, Nothing(), ("localhost", "80")), Connections(9, 9))
    await front.listen([listening])
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await front.end(1)
    return answer


def test_a_unix_socket_is_served_to_all_and_replaces_an_old_one(tmp_path):
    path = tmp_path / "web.sock"
    for _ in range(2):
        (listening,), name = main._listening(f"unix:{path}", is_shared=False)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert uvloop.run(_asked(listening, path)).endswith(b"from nowhere")
        assert name == ("localhost", "80")


def test_several_processes_share_a_port():
    with closing(socket.create_server(("127.0.0.1", 0), reuse_port=True)) as first:
        bind = f"127.0.0.1:{first.getsockname()[1]}"
        (shared,), name = main._listening(bind, is_shared=True)
        shared.close()
        assert ":".join(name) == bind
        with pytest.raises(OSError, match="in use"):
            main._listening(bind, is_shared=False)
