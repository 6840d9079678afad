"""Several commands of one run on one node: one agent measures, whatever the others do."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from trimtab import sharing

from tests.agent.conftest import trimtab_command

RANK = """
import os, time, trimtab
rank = int(os.environ["SLURM_PROCID"])
with trimtab.phase("train"):
    for _ in range(int({seconds} * 20)):
        time.sleep(0.05)
        trimtab.step(samples=1)
raise SystemExit({code})
"""


def _rank(
    environment: dict[str, str], rank: int, seconds: float, code: int = 0
) -> subprocess.Popen[bytes]:
    mine = {"SLURM_JOB_ID": "42", "SLURM_PROCID": str(rank), "SLURM_NTASKS": "3"}
    script = RANK.format(seconds=seconds, code=code)
    return subprocess.Popen(
        trimtab_command("run", "--", sys.executable, "-c", script),
        env=environment | mine,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def _sessions(service) -> set:
    return {segment.clock.session_id for segment in service.segments}


def _steps(service) -> dict[int, int]:
    found: dict[int, int] = {}
    for segment in service.segments:
        for steps in segment.steps:
            found[steps.rank] = found.get(steps.rank, 0) + len(steps.duration_us)
    return found


def test_ranks_that_slurm_starts_on_one_node_share_a_sampler(online, service, tmp_path):
    agents = [_rank(online, rank, 3) for rank in range(3)]
    assert [agent.wait(30) for agent in agents] == [0, 0, 0]
    assert len(_sessions(service)) == 1
    assert _steps(service) == {0: 60, 1: 60, 2: 60}
    assert {event.data["world_size"] for event in service.events("rank")} == {3}
    assert max(filter(None, service.series("tree.processes_count"))) >= 3
    time.sleep(0.2)
    left = [p.name for p in (tmp_path / "tmp").iterdir() if p.name.startswith("trimtab-run")]
    assert left == []


def test_a_run_has_failed_when_any_of_its_ranks_has(online, service):
    agents = [_rank(online, 0, 2), _rank(online, 1, 2, code=3)]
    assert [agent.wait(30) for agent in agents] == [0, 3]
    ended = [event.data for event in service.events("session_end")]
    assert [data["state"] for data in ended] == ["failed"]


def test_the_exit_code_of_a_rank_that_has_just_ended_is_waited_for(tmp_path):
    """The rank's process is gone before its agent can say how it ended."""
    rank = subprocess.Popen(["sleep", "60"])
    sharing.join(tmp_path, rank.pid)
    rank.kill()
    rank.wait()
    report = threading.Timer(0.3, sharing.leave, (tmp_path, rank.pid, 3))
    report.start()
    sharing.wait_for_others(tmp_path, 3.0)
    assert sharing.worst_exit_code(tmp_path) == 3
    report.join()


@pytest.mark.parametrize("how", ["ends", "killed"])
def test_another_goes_on_measuring_when_the_first_is_gone(online, service, how):
    """The other's own steps go on in their ring; what the first one had read isn't read again."""
    first = _rank(online, 0, 2 if how == "ends" else 30)
    time.sleep(1.5)
    other = _rank(online, 1, 12)
    if how == "killed":
        time.sleep(1)
        first.kill()
    first.wait(30)
    assert other.wait(40) == 0
    sessions = _sessions(service)
    assert len(sessions) == (2 if how == "ends" else 1)
    assert 20 * 5 < _steps(service)[1] <= 20 * 12
    assert service.events("session_end")[-1].data["state"] == "finished"


def test_a_run_inside_a_run_is_measured_once(trimtab, online, service, tmp_path: Path):
    inner = " ".join(trimtab_command("run", "--", "bash", "-c", "'exit 9'"))
    done = trimtab(online, "run", "--", "bash", "-c", inner)
    assert done.returncode == 9
    assert len(_sessions(service)) == 1
    own = " ".join(trimtab_command("run", "--job", "inner", "--", "true"))
    assert trimtab(online, "run", "--", "bash", "-c", own).returncode == 0
    assert "inner" in {declared.job for declared in service.declarations}
