"""No process of the service remains, however it ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.running_service import Service, command_line, manage, prepare, wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path).start()
    yield service
    service.stop()


def _alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if _is_alive(each)]


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _left(processes: list[psutil.Process]) -> Callable[[], object]:
    return lambda: [" ".join(command_line(each))[-60:] for each in _alive(processes)]


def test_ctrl_c_stops_all_of_it_in_seconds(service: Service) -> None:
    # Supervisor, Redis, worker with one of its own, beat, web
    wait_until(lambda: len(service.tree()) == 6, 60, "all processes run")
    processes = service.tree()
    service.process.send_signal(signal.SIGINT)
    assert service.process.wait(15) == 0
    assert _alive(processes) == []


def test_a_killed_supervisor_leaves_no_orphan(service: Service) -> None:
    processes = service.tree()
    service.process.kill()
    wait_until(lambda: not _alive(processes), 40, "everything has ended", _left(processes))


def test_it_starts_again_on_the_same_data_at_once(service: Service) -> None:
    token = service.token
    service.process.kill()
    again = Service(service.data_dir, service.port).start()
    assert again.token == token
    assert again.stop(signal.SIGTERM) == 0


@pytest.mark.long
def test_it_gives_up_with_the_log_when_a_part_cannot_start(tmp_path: Path) -> None:
    prepare(tmp_path)
    broken = manage(
        tmp_path, "up", "--bind", f"127.0.0.1:{Service(tmp_path).port}", TRIMTAB_WEB_WORKERS="many"
    )
    output = broken.communicate(timeout=60)[0]
    assert broken.returncode == 1
    assert "The web process fails to start" in output
    assert "TRIMTAB_WEB_WORKERS='many' is not a whole number" in output
