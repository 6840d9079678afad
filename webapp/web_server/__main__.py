"""The web server as a process: `python -m webapp.web_server --bind 127.0.0.1:8000`.

SIGTERM and SIGINT end it once the requests under way are answered, after five seconds at most.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import socket
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from wsgiref.types import WSGIApplication

import uvloop
from django.conf import settings
from django.utils.module_loading import import_string

from webapp import env
from webapp.service import pulse, watchdog
from webapp.service.address import AddressError, Bind
from webapp.service.signals import web_starts
from webapp.web_server.answering import Answering
from webapp.web_server.connections import Connections
from webapp.web_server.server import BACKLOG, WebServer

UNIX = "unix:"
PATIENCE_SECONDS = 5
NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
SWITCH_SECONDS = 0.0005
"""The interpreter's switch interval. The loop gives the interpreter away with every read, and gets
it back after this time: by default after 5 ms, which with busy threads is 200 reads a second."""
OBJECTS_PER_COLLECTION = 20_000
"""The allocations between two searches for reference cycles. An upload makes thousands of objects
and no cycles; by default, every 700 are searched."""
# A connection, its body and its answer; and what the rest of the process opens.
FILES_PER_CONNECTION, OTHER_FILES = 3, 200

logger = logging.getLogger("trimtab.web")


def main() -> int:
    parser = ArgumentParser(prog="python -m webapp.web_server", description="Trimtab's web server")
    parser.add_argument("--bind", required=True, metavar="ADDRESS", help="HOST:PORT or unix:PATH")
    bind = parser.parse_args().bind
    # The name that PostgreSQL shows for its connections.
    os.environ.setdefault("PGAPPNAME", "trimtab web")
    gc.disable()  # what is loaded stays: searching it repeatedly is a tenth of the start
    # The application first: a wrong setting ends the process before anybody can connect.
    from webapp.wsgi import application

    workers = env.integer("TRIMTAB_WEB_WORKERS", 1, low=1)
    try:
        sockets, name = _listening(bind, is_shared=workers > 1)
    except AddressError as error:
        sys.exit(str(error))
    web_starts.send(sender=None)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # Modules and settings live as long as the process
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    gc.enable()
    watchdog.start()
    uvloop.run(_serve(application, sockets, name))
    return 0


def _listening(bind: str, is_shared: bool) -> tuple[list[socket.socket], tuple[str, str]]:
    """Return the sockets, and the server's name and port for WSGI. Raises AddressError."""
    if bind.startswith(UNIX):
        # Everybody who may enter its folder may connect: the proxy is another user.
        return [_unix_socket(Path(bind.removeprefix(UNIX)))], ("localhost", "80")
    address = Bind.parse(bind)
    sockets = _internet_sockets(address, is_shared)
    return sockets, (address.host, str(address.port))


def _unix_socket(path: Path) -> socket.socket:
    """Listen on a Unix socket, which replaces one that an earlier process left."""
    if path.is_socket():
        path.unlink()
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    path.chmod(0o666)
    made.listen(BACKLOG)
    return made


def _internet_sockets(address: Bind, is_shared: bool) -> list[socket.socket]:
    """Listen on each address of the host. In many containers `localhost` has an IPv6 address, too,
    which can't be used.
    """
    found = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    made: list[socket.socket] = []
    for family, place in sorted({(each[0], each[4]) for each in found}):
        try:
            made.append(_internet_socket(family, place, is_shared))
        except OSError as error:
            if error.errno not in NO_SUCH_ADDRESS:
                raise
            missing = error
    if not made:
        raise missing
    return made


def _internet_socket(family: int, place: Any, is_shared: bool) -> socket.socket:
    return socket.create_server(place, family=family, backlog=BACKLOG, reuse_port=is_shared)


async def _serve(
    application: WSGIApplication, sockets: list[socket.socket], name: tuple[str, str]
) -> None:
    ending = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, ending.set)
    answering = Answering(
        application,
        threads=env.integer("TRIMTAB_WEB_THREADS", 8, low=1),
        gathered=import_string(settings.GATHERED_OPERATION)(),
        name=name,
    )
    server = WebServer(answering, _connections())
    await server.listen(sockets)
    logger.info("listening", extra={"bind": ":".join(name)})
    watching = asyncio.create_task(server.watch(_give_signs_of_life))
    await ending.wait()
    await server.end(PATIENCE_SECONDS)
    watching.cancel()


def _give_signs_of_life() -> None:
    """Give a sign of life to the supervisor, if there is one, and to this process's own
    watchdog.
    """
    pulse.send_pulse()
    watchdog.loop_turned()


def _connections() -> Connections:
    """Return the connections, as many as are allowed and as there can be file descriptors for."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    possible = sys.maxsize if hard == resource.RLIM_INFINITY else hard - OTHER_FILES
    most = min(env.integer("TRIMTAB_CONNECTIONS", 4000, low=1), possible // FILES_PER_CONNECTION)
    most_per_address = env.integer("TRIMTAB_ADDRESS_CONNECTIONS", 1000, low=1)
    return Connections(most, most_per_address, is_behind_proxies=settings.TRUSTED_PROXIES > 0)


if __name__ == "__main__":
    sys.exit(main())
