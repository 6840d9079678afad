"""A PostgreSQL server of one's own, that can lose its sessions and crash."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.running_service import free_port

NAME = USER = "trimtab"


def programs() -> Path | None:
    """Return the folder of initdb and pg_ctl: on the PATH, or where Debian keeps them."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


class Cluster:
    """Started empty in `folder`. The server refuses to run as root, so root lends it to a user."""

    def __init__(self, folder: Path) -> None:
        found = programs()
        assert found is not None, "Install PostgreSQL."
        self._programs, self._folder = found, folder
        self.port = free_port()
        folder.mkdir(mode=0o755)
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        self._run("initdb", "-D", "data", "-U", USER, "-A", "trust", "-E", "UTF8")
        self._start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, NAME)

    def url(self, port: int | None = None) -> str:
        return f"postgresql://{USER}@127.0.0.1:{port or self.port}/{NAME}"

    def crash(self) -> None:
        """Stop without a checkpoint and start again: what was committed comes from the log."""
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")
        self._start()

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "data", "-m", "fast", "-w", "stop")

    def _start(self) -> None:
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1"
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-o", options, "start")

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._programs / program), *words]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, cwd=self._folder, check=True, stdout=subprocess.DEVNULL)
