"""The git repository of the working folder: its name from files, its state from git."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_STATUS_SECONDS = 5


@dataclass(frozen=True)
class Repository:
    """Repository in which the command was started."""

    folder: Path
    name: str


@dataclass(frozen=True)
class RepositoryState:
    """State of the repository. Empty means unknown."""

    commit: str = ""
    branch: str = ""
    dirty: bool = False


def repository(start: Path) -> Repository | None:
    """Return the innermost repository that contains `start`, named after its origin, or else its
    folder.
    """
    for folder in (start, *start.parents):
        git = folder / ".git"
        with suppress(OSError):  # a parent folder may not be readable
            if git.is_dir():
                return Repository(folder, _origin_name(git / "config") or folder.name)
            if git.is_file():
                return Repository(folder, folder.name)
    return None


def _origin_name(config: Path) -> str:
    section = ""
    try:
        lines = config.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in map(str.strip, lines):
        if line.startswith("["):
            section = line
        elif section == '[remote "origin"]' and line.replace(" ", "").startswith("url="):
            name = line.partition("=")[2].strip().rstrip("/").replace(":", "/").rsplit("/", 1)[-1]
            return name.removesuffix(".git")
    return ""


def state(folder: Path) -> RepositoryState:
    """Return commit, branch and whether tracked files differ; empty if git is missing or slow."""
    command = ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        answer = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_STATUS_SECONDS,
            env=environment,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return RepositoryState()
    return _parsed(answer.stdout.splitlines())


def _parsed(lines: list[str]) -> RepositoryState:
    headers = [line.split(" ") for line in lines if line.startswith("# ")]
    facts = {words[1]: words[2] for words in headers if len(words) > 2}
    commit, branch = facts.get("branch.oid", ""), facts.get("branch.head", "")
    return RepositoryState(
        commit="" if commit == "(initial)" else commit,
        branch="" if branch == "(detached)" else branch[:120],
        dirty=any(not line.startswith("#") for line in lines),
    )
