"""A folder with a recipe and a training, and programs on PATH that stand for a platform's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.conftest import TOKEN
from tests.agent.conftest import environment as environment
from tests.agent.conftest import online as online
from tests.agent.conftest import service as service
from tests.agent.service import Service
from tests.running_service import CHECKOUT

EXAMPLES = CHECKOUT / "examples"
STAND_INS = Path(__file__).parent / "stand_ins"
TRAINING = """\
import time
import trimtab

def train():
    with trimtab.phase("train"):
        for _ in range(10):
            time.sleep(0.05)
            trimtab.step(samples=1)

if __name__ == "__main__":
    train()
"""


class Place:
    """The place where a recipe runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder / "place", folder / "programs"
        self.calls = folder / "calls"
        """The calls of stand-ins: a line of JSON each."""
        self.folder.mkdir()
        self.programs.mkdir()
        for name in ("trimtab", "python", "python3"):
            module = "-m trimtab.cli " if name == "trimtab" else ""
            self.program(name, f'#!/bin/sh\nexec {sys.executable} {module}"$@"\n')
        (self.folder / "train.py").write_text(TRAINING)

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def stand_in(self, *names: str) -> None:
        """Put programs of `stand_ins` on PATH."""
        for name in names:
            text = (STAND_INS / f"{name}.py").read_text()
            self.program(name, f"#!{sys.executable}\n{text}")

    def copy(self, recipe: str) -> None:
        shutil.copytree(EXAMPLES / recipe, self.folder, dirs_exist_ok=True)

    def start(self, variables: dict[str, str], *words: str) -> subprocess.Popen[str]:
        path = f"{self.programs}:{os.environ['PATH']}"
        return subprocess.Popen(
            words,
            env=variables | {"PATH": path, "CALLS": str(self.calls)},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, variables: dict[str, str], *words: str) -> int:
        """Return the exit code; the output is shown if the test fails."""
        process = self.start(variables, *words)
        sys.stdout.write(process.communicate(timeout=120)[0])
        return process.returncode

    def called(self) -> list[list[str]]:
        return [json.loads(line) for line in self.calls.read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(autouse=True)
def signed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that a recipe sends all with the token that its platform gave it."""
    asks = "service" in request.fixturenames
    sent = request.getfixturevalue("service").requests if asks else []
    yield
    assert {each.headers.get("Authorization") for each in sent} <= {f"Bearer {TOKEN}"}


def steps(at: Service) -> dict[int, int]:
    """Return how many steps each rank reported."""
    found: dict[int, int] = {}
    for segment in at.segments:
        for each in segment.steps:
            found[each.rank] = found.get(each.rank, 0) + len(each.duration_us)
    return found


def states(at: Service) -> list[str]:
    return [event.data["state"] for event in at.events("session_end")]
