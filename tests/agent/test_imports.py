"""The agent's process holds no module that it doesn't need: it runs beside a training for days."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.agent.conftest import trimtab_command

NEEDED = {"trimtab.uploader", "trimtab.sampler", "ssl", "sqlite3"}
NOT_NEEDED = {"ast", "dis", "tokenize", "_bz2", "_lzma", "trimtab.sdk", "numpy", "asyncio"}


def test_an_agent_imports_only_what_it_needs(online, service):
    words = trimtab_command("run", "--", sys.executable, "-c", "import time; time.sleep(1)")
    told = online | {"PYTHONPROFILEIMPORTTIME": "1"}
    agent = subprocess.run(words, env=told, capture_output=True, text=True, timeout=60)
    assert agent.returncode == 0
    # Of the command, too: it imports no more than Python does.
    imported = {line.rpartition("|")[2].strip() for line in agent.stderr.splitlines()}
    assert imported >= NEEDED
    assert not imported & NOT_NEEDED


@pytest.mark.parametrize("name", ["inspect", "bz2", "lzma"])
def test_what_comes_later_is_there_when_it_is_used(name):
    code = f"""
import sys
from trimtab.cli import _load_when_used
sys.modules.pop("{name}", None)
_load_when_used("{name}")
import {name}
assert "{name}" not in str({name}.__spec__)
assert {name}.__doc__ is None and {name}.__file__.endswith("{name}.py")
assert sys.modules["{name}"] is not {name} and dir(sys.modules["{name}"])
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_training_gets_each_call_and_no_other():
    code = """
import trimtab
assert callable(trimtab.step) and callable(trimtab.load)
from trimtab import epoch, log, phase, run, wrap
try:
    trimtab.train
except AttributeError as error:
    assert "train" in str(error)
else:
    raise SystemExit(1)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
