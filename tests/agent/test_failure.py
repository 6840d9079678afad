"""The facts that the machine knows of why a command failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from trimtab.sources.container import Groups
from trimtab.sources.memory_kills import MemoryKills, last_killed

KERNEL_LOG = [
    "6,811,98765432,-;python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0",
    "6,812,98765440,-;Memory cgroup out of memory: Killed process 4711 (python) total-vm:9kB,"
    " anon-rss:33449164kB, file-rss:71680kB, shmem-rss:0kB, UID:0 pgtables:66248kB oom_score_adj:0",
    "3,813,98765999,-;Out of memory: Killed process 4712 (pt_data (2)) total-vm:1kB, anon-rss:8kB,",
    "6,814,98766000,c;oom_reaper: reaped process 4711 (python), now anon-rss:0kB",
]


@pytest.fixture
def ended(trimtab, online, service):
    def run(*words: str) -> dict:
        trimtab(online, "run", "--", *words)
        (event,) = service.events("session_end")
        return event.data

    return run


def test_an_exit_code_is_no_signal(ended):
    facts = ended("sh", "-c", "exit 3")
    assert (facts["state"], facts["exit_code"], facts["signal"]) == ("failed", 3, None)


def test_a_signal_is_named(ended):
    facts = ended(sys.executable, "-c", "import os; os.kill(os.getpid(), 11)")
    assert (facts["exit_code"], facts["signal"]) == (139, signal.SIGSEGV)


def test_a_run_that_finishes_has_no_such_facts(ended):
    assert "signal" not in ended("true")


def test_the_kernels_log_names_the_process_of_this_run():
    found = last_killed(KERNEL_LOG, {4711}, 98.0)
    assert found is not None
    assert (found.name, found.rss_bytes) == ("python", 33449164 * 1024)
    other = last_killed(KERNEL_LOG, {4712}, 98.0)
    assert other is not None
    assert other.name == "pt_data (2)"


def test_kills_of_others_and_of_earlier_runs_are_not_this_runs():
    assert last_killed(KERNEL_LOG, {1}, 98.0) is None
    assert last_killed(KERNEL_LOG, {4711}, 99.0) is None


def _groups(tmp_path: Path, files: dict[str, str], kind: str) -> Groups:
    """Return a cgroup with these files, as `/proc/self` would describe it."""
    mount = tmp_path / "cgroup"
    (mount / "job").mkdir(parents=True)
    for name, text in files.items():
        (mount / "job" / name).write_text(text)
    names = "" if kind == "cgroup2" else "memory"
    options = "rw" if kind == "cgroup2" else "rw,memory"
    (tmp_path / "cgroup-of-self").mkdir()
    proc = tmp_path / "cgroup-of-self"
    (proc / "cgroup").write_text(f"0:{names}:/job\n")
    (proc / "mountinfo").write_text(f"30 25 0:26 / {mount} rw - {kind} cgroup {options}\n")
    return Groups(proc)


@pytest.mark.parametrize(
    ("kind", "counts", "peak"),
    [("cgroup2", "memory.events", "memory.peak"),
     ("cgroup", "memory.oom_control", "memory.max_usage_in_bytes")],
)  # fmt: skip
def test_kills_of_the_cgroup_are_counted_from_the_start(tmp_path, kind, counts, peak):
    before = "low 0\nmax 7\noom 3\noom_kill 2\n"
    kills = MemoryKills(_groups(tmp_path, {counts: before, peak: "34252783616\n"}, kind))
    assert (kills.since_start(), kills.is_own_group) == (0, True)
    (tmp_path / "cgroup" / "job" / counts).write_text(before.replace("oom_kill 2", "oom_kill 4"))
    assert (kills.since_start(), kills.peak_bytes()) == (2, 34252783616)


def test_without_a_cgroup_of_its_own_the_machine_is_counted(tmp_path):
    (tmp_path / "vmstat").write_text("nr_free_pages 1\noom_kill 5\n")
    kills = MemoryKills(_groups(tmp_path, {}, "cgroup2"), proc=tmp_path)
    assert (kills.since_start(), kills.is_own_group) == (0, False)


def test_a_kernel_that_does_not_count_leaves_it_unknown(tmp_path):
    (tmp_path / "vmstat").write_text("nr_free_pages 1\n")
    kills = MemoryKills(_groups(tmp_path, {}, "cgroup2"), proc=tmp_path)
    assert kills.since_start() is None


def _limited(limit_bytes: int) -> Path | None:
    """Return a cgroup with a limit, where this user may make one."""
    group = Path("/sys/fs/cgroup/memory") / f"trimtab-test-{os.getpid()}"
    names = ("memory.limit_in_bytes", "memory.oom_control")
    if not group.parent.is_dir():
        group = Path("/sys/fs/cgroup") / f"trimtab-test-{os.getpid()}"
        names = ("memory.max", "memory.events")
    try:
        group.mkdir()
        (group / names[0]).write_text(str(limit_bytes))
        (group / names[1]).read_text()
    except OSError:
        if group.is_dir():
            group.rmdir()
        return None
    return group


@pytest.mark.long  # not everywhere may a cgroup be limited
def test_a_training_that_the_kernel_kills_for_memory_says_so(online, service, tmp_path):
    group = _limited(300 * 2**20)
    if group is None:
        pytest.skip("this user may not limit a cgroup's memory")
    agent = [sys.executable, "-m", "trimtab.cli", "run", "--"]
    greedy = "x = []\nwhile True: x.append(bytearray(10_000_000))"
    enter = f'echo $$ > {group}/cgroup.procs; exec "$@"'
    words = ["sh", "-c", enter, "sh", *agent, sys.executable, "-c", greedy]
    try:
        done = subprocess.run(words, env=online, cwd=tmp_path, capture_output=True, timeout=60)
        assert done.returncode == 128 + signal.SIGKILL
        (event,) = service.events("session_end")
    finally:
        group.rmdir()
    facts = event.data
    assert (facts["signal"], facts["oom_kills"], facts["oom_scope"]) == (9, 1, "container")
    assert facts["memory_limit_bytes"] == 300 * 2**20
    assert 0.9 * facts["memory_limit_bytes"] <= facts["memory_bytes"] <= facts["memory_limit_bytes"]
