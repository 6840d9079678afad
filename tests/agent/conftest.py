from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.agent import fake_nvml
from tests.agent.metadata import Answer, Stub
from tests.agent.service import Service
from tests.running_service import kill_all

TOKEN = "tt_test-token"


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.close()


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield what the agent's processes see: no Trimtab or launcher variable of the outer world.

    Afterwards the drainers that the test left behind are ended.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRIMTAB", "SLURM", "TORCH"))}
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    mine = {
        "TRIMTAB_STATE_DIR": str(tmp_path / "state"),
        "TMPDIR": str(temporary),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "TRIMTAB_METADATA": "off",
    }
    yield kept | mine
    kill_all(drainers_of(tmp_path))


def drainers_of(tmp_path: Path) -> list[psutil.Process]:
    """Return the detached processes that one test's runs have left."""
    found = []
    for pid in psutil.pids():
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.cmdline()[-1:] == ["--detached"]:
                told = process.environ().get("XDG_CONFIG_HOME", "")
                found += [process] if str(tmp_path) in told else []
    return found


@pytest.fixture
def online(environment: dict[str, str], service: Service) -> dict[str, str]:
    return environment | {"TRIMTAB_URL": service.url, "TRIMTAB_TOKEN": TOKEN}


@pytest.fixture
def stub() -> Iterator[Callable[[Answer], Stub]]:
    """Makes metadata services."""
    made: list[Stub] = []

    def make(answer: Answer) -> Stub:
        made.append(Stub(answer))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_nvml.compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def driver(nvml_library: Path, tmp_path: Path) -> fake_nvml.Driver:
    return fake_nvml.Driver(nvml_library, tmp_path / "gpus")


Trimtab = Callable[..., "subprocess.CompletedProcess[str]"]


def trimtab_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "trimtab.cli", *words]


@pytest.fixture
def trimtab(tmp_path: Path) -> Trimtab:
    """Runs the real command line in an empty folder, without a terminal."""
    place = tmp_path / "place"
    place.mkdir()

    def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            trimtab_command(*words),
            env=environment,
            cwd=place,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    return run
