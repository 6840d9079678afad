"""The identity of run, job, attempt and machine, computed without asking the service."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

from trimtab.git import Repository
from trimtab.timeline import boot_id, uuid7
from trimtab.wire import LIMITS

_LAUNCHERS = ("TRIMTAB_RUN", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "TRAINING_JOB_NAME")
_ATTEMPTS = ("TRIMTAB_ATTEMPT", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
_TORCHRUN_WITHOUT_ID = "none"
"""torchrun's TORCHELASTIC_RUN_ID if no id was given; not an identity."""
_TOKEN_PREFIX_CHARS = 8


@dataclass(frozen=True)
class ServiceAccess:
    """URL and token of the service; both empty if no service is set."""

    url: str = ""
    token: str = ""

    @property
    def destination(self) -> str:
        """Return a text that identifies service and workspace in a shared spool, without the token
        itself.

        Empty without a token: such samples wait until a service is set.
        """
        if not self.url or not self.token:
            return ""
        return f"{self.url} {hashlib.sha256(self.token.encode()).hexdigest()[:12]}"

    def page(self, run: UUID) -> str:
        """Return the URL of the run's page; empty if no service is set."""
        return f"{self.url}/runs/{run}" if self.url else ""


def is_shared(environment: Mapping[str, str]) -> bool:
    """Return whether a launcher or the user names the run, so that other commands may belong to
    it.
    """
    names = (environment.get(name, "").strip() for name in _LAUNCHERS)
    return any(name and name != _TORCHRUN_WITHOUT_ID for name in names)


def run_id(server: ServiceAccess, environment: Mapping[str, str]) -> UUID:
    """Return the run's id. A UUID in TRIMTAB_RUN is used as it is; a launcher's id gives the same
    run on every node.
    """
    for name in _LAUNCHERS:
        launcher_id = environment.get(name, "").strip()
        if not launcher_id or launcher_id == _TORCHRUN_WITHOUT_ID:
            continue
        if name == "TRIMTAB_RUN":
            try:
                return UUID(launcher_id)
            except ValueError:
                pass
        workspace = f"{server.url}#{server.token[:_TOKEN_PREFIX_CHARS]}"
        return uuid5(NAMESPACE_URL, f"{workspace}/{name}/{launcher_id}")
    return uuid7()


def attempt(environment: Mapping[str, str]) -> int:
    for name in _ATTEMPTS:
        if environment.get(name, "").isdecimal():
            return min(int(environment[name]), 1_000_000)
    return 0


def machine_id(environment: Mapping[str, str]) -> str:
    """Return the instance id from TRIMTAB_MACHINE_ID or the firmware, or else a hash of boot and
    host.
    """
    known = environment.get("TRIMTAB_MACHINE_ID", "").strip() or _instance_id()
    if known:
        return shorten_name(known)
    return hashlib.sha256(f"{boot_id()}|{socket.gethostname()}".encode()).hexdigest()[:32]


def _instance_id() -> str:
    """Return the id of an EC2 instance on Nitro, from its firmware; else empty."""
    with suppress(OSError, UnicodeDecodeError):
        tag = Path("/sys/class/dmi/id/board_asset_tag").read_text().strip()
        return tag if tag.startswith("i-") else ""
    return ""


def working_folder() -> Path:
    """Return the working folder; if it was deleted, the shell's PWD."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.environ.get("PWD") or "/")


def entry_point(command: Sequence[str]) -> str:
    """Return the script or module that the command runs, else the program's name."""
    for before, word in zip(command, command[1:]):
        if before == "-m" and Path(command[0]).name.startswith("python"):
            return word
        is_script = word.endswith((".py", ".sh")) or (os.sep in word and _is_file(Path(word)))
        if is_script and not word.startswith("-"):
            return word
    return Path(command[0]).name


def job_name(
    command: Sequence[str], repository: Repository | None, place: Path | None = None
) -> str:
    """Return the default name of a job run in `place`: git repository (else folder)/script path."""
    script = entry_point(command)
    place = place or working_folder()
    if repository is None:
        return shorten_name(f"{place.name or 'root'}/{_relative(script, place, place)}")
    return shorten_name(f"{repository.name}/{_relative(script, place, repository.folder)}")


def _relative(script: str, place: Path, base: Path) -> str:
    path = place / script
    if _is_file(path) and path.resolve().is_relative_to(base.resolve()):
        return str(path.resolve().relative_to(base.resolve()))
    return Path(script).name


def _is_file(path: Path) -> bool:
    """Return whether a word is a file; False also if the lookup fails: a word may be a whole
    program (`python -c`).
    """
    with suppress(OSError, ValueError):
        return path.is_file()
    return False


def pairs(text: str) -> dict[str, str]:
    """Parse `k=v,k2=v2` as a mapping; a word without `=` is a key with an empty value."""
    values = {}
    for word in text.split(","):
        key, _, value = word.strip().partition("=")
        if key:
            values[shorten_name(key.strip())] = shorten_name(value.strip())
    return values


def shorten_name(value: str) -> str:
    return value[: LIMITS.name_chars]
