"""The agent runs on the Pythons of training images, and its hook is harmless on any."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from trimtab import hooks
from trimtab.wire import decode_segment

from tests.agent.interpreters import AGENT, interpreters

SOURCES = str(Path(hooks.__file__).parents[2])
TRAINING = """
import sys, time, trimtab
import trimtab.hooks.pytorch
trimtab.run(lr=0.1)
for batch in trimtab.wrap(range(5)):
    trimtab.step(samples=2)
time.sleep(0.3)
print(sys.version_info[:2])
"""
LOOK = "import sys; print([sys.path, sorted(sys.modules), sys.warnoptions])"


def _named(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _agents() -> list[object]:
    """Return all versions; those in between are left to the long tests."""
    versions = list(interpreters(AGENT))
    between = versions[1:-1]
    rarely = pytest.mark.long
    return [pytest.param(v, marks=rarely) if v in between else v for v in versions]


@pytest.mark.parametrize("version", _agents(), ids=_named)
def test_the_agent_measures_and_uploads_on_each_python(
    environment, service, online, tmp_path, version
):
    environment = environment | {"PYTHONPATH": SOURCES}
    agent = [interpreters(AGENT)[version], "-W", "error", "-m", "trimtab.cli"]

    def run(variables: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*agent, *words], env=variables, cwd=tmp_path, capture_output=True, text=True
        )

    done = run(environment, "run", "--", agent[0], "-c", TRAINING)
    assert (done.stdout, done.stderr, done.returncode) == (f"{version}\n", "", 0)
    path = Path(environment["TRIMTAB_STATE_DIR"]) / "spool.sqlite3"
    with closing(sqlite3.connect(path)) as spool:
        ((body,),) = spool.execute("SELECT body FROM segments").fetchall()
    (steps,) = decode_segment(body).steps
    assert steps.samples == [2] * 5

    synced = run(online | {"PYTHONPATH": SOURCES}, "sync")
    assert (synced.stderr, synced.returncode) == ("", 0)
    assert service.segments[0].steps == [steps]
    assert service.declarations[0].parameters == {"lr": 0.1}


@pytest.mark.parametrize("version", interpreters((2, 7)), ids=_named)
def test_the_hook_leaves_no_trace_on_any_python(version, tmp_path):
    words = [interpreters((2, 7))[version], "-W", "error", "-c", LOOK]
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": "/lib:", "PYTHONDONTWRITEBYTECODE": "1"}
    hooked = hooks.environment(bare, tmp_path)

    def look(environment: dict[str, str]) -> tuple[str, str, int]:
        done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True)
        return done.stdout, done.stderr, done.returncode

    assert look(hooked) == look(bare)
