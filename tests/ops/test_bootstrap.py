"""The work of `manage.py` before Django is installed, on small checkouts that need no registry."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_service import CHECKOUT

BASE_PYTHON = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
AGENT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "trimtab"
version = "0"
"""
# A build tool of its own: the one in the real lock would have to be fetched.
BACKEND = """
import pathlib, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "trimtab-0-py3-none-any.whl"
    info = "trimtab-0.dist-info/"
    files = {
        "trimtab.pth": str(pathlib.Path.cwd()),
        info + "METADATA": "Metadata-Version: 2.1\\nName: trimtab\\nVersion: 0\\n",
        info + "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        info + "RECORD": "",
    }
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
"""
MANAGE = """
import runpy, sys
from pathlib import Path
here = Path(__file__).resolve().parent
bootstrap = runpy.run_path(str(here / "webapp" / "service" / "bootstrap.py"))
bootstrap["enter_environment"](here, sys.argv[1])
import trimtab
print("inside", sys.prefix, trimtab.WORD)
"""
PACKAGE = {"name": "empty", "version": "0.0.0", "lockfileVersion": 3, "packages": {"": {}}}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a checkout like ours, with empty locks and an agent of one line."""
    root = tmp_path / "checkout"
    for folder in ("requirements", "agent", "webapp/service"):
        (root / folder).mkdir(parents=True)
    for name in ("runtime", "demo", "test", "node"):
        (root / "requirements" / f"{name}.txt").write_text(f"# {name}\n")
    (root / "agent" / "pyproject.toml").write_text(AGENT)
    (root / "agent" / "backend.py").write_text(BACKEND)
    (root / "agent" / "trimtab.py").write_text("WORD = 'first'\n")
    (root / "package.json").write_text('{"name": "empty", "version": "0.0.0"}')
    (root / "package-lock.json").write_text(json.dumps(PACKAGE))
    shutil.copy(CHECKOUT / "webapp" / "service" / "bootstrap.py", root / "webapp" / "service")
    (root / "manage.py").write_text(MANAGE)
    return root


def start(checkout: Path, wanted: str = "runtime", **variables: str) -> subprocess.Popen[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TRIMTAB_", "PYTHON"))}
    return subprocess.Popen(
        [BASE_PYTHON, "manage.py", wanted],
        cwd=checkout,
        env=inherited | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(checkout: Path, wanted: str = "runtime", **variables: str) -> tuple[int, str]:
    process = start(checkout, wanted, **variables)
    output = process.communicate(timeout=120)[0]
    return process.returncode, output


def test_it_makes_the_environment_once_and_again_only_when_it_is_out_of_date(
    checkout: Path,
) -> None:
    code, output = run(checkout, "test")
    assert code == 0, output
    assert f"inside {checkout / '.venv'} first" in output

    (checkout / "agent" / "trimtab.py").write_text("WORD = 'second'\n")
    assert run(checkout) == (0, f"inside {checkout / '.venv'} second\n"), "larger set, edited agent"

    (checkout / "requirements" / "runtime.txt").write_text("# changed\n")
    assert "Installing" in run(checkout)[1], "a changed lock"

    moved = checkout.rename(checkout.with_name("moved"))
    output = run(moved)[1]
    assert "Creating .venv" in output
    assert f"inside {moved / '.venv'} second" in output


def test_two_first_starts_at_once_make_one_environment(checkout: Path) -> None:
    both = [start(checkout), start(checkout)]
    outputs = [each.communicate(timeout=120)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0], outputs
    made = [re.findall(r"Creating \.venv +done", output) for output in outputs]
    assert sum(map(len, made)) == 1
    assert sum("waiting for it" in output for output in outputs) == 1


def test_a_stage_that_takes_long_says_how_far_it_is(capsys, monkeypatch):
    """The command may print nothing for a while."""
    bootstrap = runpy.run_path(str(CHECKOUT / "webapp" / "service" / "bootstrap.py"))
    run = bootstrap["_run"]
    monkeypatch.setitem(run.__globals__, "SHOWN_EVERY_SECONDS", {False: 0.05})
    prints_and_waits = "import time; print('Collecting a', flush=True); time.sleep(1)"
    run("Installing", [BASE_PYTHON, "-c", prints_and_waits], lambda line: "Collecting" in line, 3)
    lines = capsys.readouterr().out.splitlines()
    assert "0/3" in lines[0]
    assert sum("1/3" in line for line in lines) >= 2
    assert "done" in lines[-1]


def test_a_failed_install_shows_what_pip_said_and_is_tried_again(checkout: Path) -> None:
    lock = checkout / "requirements" / "runtime.txt"
    lock.write_text("certainly-not-a-package-of-ours==1.0\n")
    code, output = run(checkout, PIP_NO_INDEX="1")
    assert code == 1
    assert "No matching distribution found for certainly-not-a-package-of-ours" in output
    assert "Traceback" not in output
    lock.write_text("# mended\n")
    assert run(checkout)[0] == 0


def test_a_linked_folder_is_never_cleared(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").write_text("mine")
    (checkout / ".venv").symlink_to(other)

    code, output = run(checkout)

    assert code != 0
    assert f".venv is a link to {other}" in output
    assert (other / "kept").read_text() == "mine"


def test_a_debian_without_venv_gets_the_apt_line(checkout: Path, tmp_path: Path) -> None:
    without = tmp_path / "without"
    without.mkdir()
    blocked = "import sys; sys.modules['ensurepip'] = None\n"
    (without / "sitecustomize.py").write_text(blocked)
    code, output = run(checkout, PYTHONPATH=str(without))
    assert code == 1
    assert not (checkout / ".venv").exists()
    if Path("/etc/debian_version").exists():
        assert f"apt-get install -y python3.{sys.version_info.minor}-venv" in output
    assert "Traceback" not in output


def test_a_container_makes_no_environment(checkout: Path) -> None:
    output = run(checkout, TRIMTAB_NO_VENV="1", PYTHONPATH=str(checkout / "agent"))[1]
    assert output == f"inside {sys.base_prefix} first\n"
    assert not (checkout / ".venv").exists()


def test_without_a_command_it_prints_help_and_installs_nothing(checkout: Path) -> None:
    shutil.copy(CHECKOUT / "manage.py", checkout)
    printed = subprocess.run(
        [BASE_PYTHON, "manage.py"], cwd=checkout, capture_output=True, text=True, check=True
    )
    assert "python3 manage.py demo" in printed.stdout
    assert not (checkout / ".venv").exists()
