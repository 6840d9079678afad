"""The agent as a training machine gets it: from the service, by pip, without any index."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from django.test import Client

from webapp.service import agent_wheel

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def data_folder(settings, tmp_path):
    settings.DATA_DIR = tmp_path


def test_pip_installs_the_agent_from_the_service(live_server, tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    address = f"{live_server.url}/agent/{agent_wheel.name()}"
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}
    pip = [str(venv / "bin" / "pip"), "install", "--no-deps", "--no-index", "--no-cache-dir"]
    subprocess.run([*pip, address], check=True, env=outside, capture_output=True)
    trimtab = str(venv / "bin" / "trimtab")
    said = subprocess.run([trimtab, "--version"], env=outside, capture_output=True, text=True)
    assert said.stdout.split()[-1] == agent_wheel.name().split("-")[1]
    state = outside | {"TRIMTAB_STATE_DIR": str(tmp_path / "state"), "TRIMTAB_METADATA": "off"}
    ran = subprocess.run([trimtab, "run", "--", "false"], env=state, timeout=60)
    assert ran.returncode == 1


def test_the_page_without_jobs_says_what_to_install(owner, settings):
    page = owner.page("/")
    (command,) = re.findall(r"pip install (\S+)</code>", page)
    assert command.startswith(f"{settings.BASE_URL}/agent/")
    served = owner.client.get(command.removeprefix(settings.BASE_URL))
    assert served.status_code == 200
    assert b"".join(served.streaming_content)[:2] == b"PK"


def test_it_is_built_once_and_equal_code_makes_an_equal_file(settings, tmp_path):
    first = agent_wheel.path()
    written = first.stat().st_mtime_ns
    assert agent_wheel.path() == first
    assert first.stat().st_mtime_ns == written
    settings.DATA_DIR = tmp_path / "another"
    settings.DATA_DIR.mkdir()
    assert _sha256(agent_wheel.path()) == _sha256(first)


def test_it_holds_the_agent_and_nothing_else():
    with zipfile.ZipFile(agent_wheel.path()) as wheel:
        folders = {name.split("/")[0] for name in wheel.namelist()}
        assert "trimtab/py.typed" in wheel.namelist()
    version = agent_wheel.name().split("-")[1]
    assert folders == {"trimtab", f"trimtab-{version}.dist-info"}


@pytest.mark.parametrize("name", ["trimtab-0.0.1-py3-none-any.whl", "..%2f..%2fsecret-key", "x"])
def test_another_name_is_not_found(name):
    assert Client().get(f"/agent/{name}").status_code == 404


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
