"""Processes that leave the run's tree are still the run's; everybody else's are not."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from trimtab.sources.orphans import Orphans
from trimtab.sources.tree import _LONGEST_RESCAN_SECONDS, ProcessTree

DAEMON = """
import os, sys, time
if os.fork() == 0:
    if "setsid" in sys.argv: os.setsid()
    if os.fork() == 0:
        until = time.time() + 9
        while time.time() < until: pass
    os._exit(0)
os.wait()
time.sleep(9)
"""


@pytest.mark.parametrize("how", ["fork twice", "setsid"])
def test_a_daemon_is_counted_among_the_processes_of_the_run(trimtab, online, service, how):
    """The daemon's CPU time is that of the run; the command itself only sleeps. How much the daemon
    gets of a busy machine differs.
    """
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        done = trimtab(online, "run", "--", sys.executable, "-c", DAEMON, how)
    finally:
        neighbour.kill()
        neighbour.wait()
    assert done.returncode == 0, done.stderr
    assert max(filter(None, service.series("tree.processes_count"))) == 2
    cpu_seconds = [value for value in service.series("tree.cpu_seconds_total") if value is not None]
    assert cpu_seconds[-1] - cpu_seconds[0] >= 0.15


def _looked(orphans: Orphans, known: set[int], seen: set[int]) -> list[int]:
    orphans._look_at = 0.0
    return orphans.look(known, seen)


def test_the_mark_in_the_environment_must_be_the_runs_own(tmp_path):
    theirs = dict(os.environ) | {"TRIMTAB_RUN_DIR": f"{tmp_path}-other"}
    mine = dict(os.environ) | {"TRIMTAB_RUN_DIR": str(tmp_path)}
    words = [sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"]
    started = [subprocess.Popen(words, env=e, stdout=subprocess.PIPE) for e in (theirs, mine)]
    try:
        for each in started:
            each.stdout.readline()
        assert _looked(Orphans(tmp_path), set(), set()) == [started[1].pid]
        assert _looked(Orphans(None), set(), set()) == []
    finally:
        for each in started:
            each.kill()
            each.communicate()


def test_a_session_of_the_run_belongs_to_it_even_without_the_environment(tmp_path):
    words = ["setsid", sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"]
    daemon = subprocess.Popen(words, env={}, stdout=subprocess.PIPE)
    try:
        daemon.stdout.readline()
        assert _looked(Orphans(tmp_path), set(), {os.getsid(daemon.pid)}) == [daemon.pid]
        assert _looked(Orphans(tmp_path), set(), set()) == []
    finally:
        daemon.kill()
        daemon.communicate()


def test_a_process_that_the_kernel_hides_makes_the_totals_unknown(monkeypatch):
    """The child is listed, but has no files for this user, as with `hidepid`."""
    child = subprocess.Popen(["sleep", "60"])
    real_open = os.open

    def hides(path, *arguments, **named):
        if str(path).startswith(f"/proc/{child.pid}/"):
            raise FileNotFoundError(path)
        return real_open(path, *arguments, **named)

    def may_not_signal(pid, number):
        raise PermissionError(pid)

    try:
        tree = ProcessTree(os.getpid())
        assert tree.read()["tree.cpu_seconds_total"] is not None
        child.kill()
        child.wait()
        child = subprocess.Popen(["sleep", "60"])
        monkeypatch.setattr(os, "open", hides)
        monkeypatch.setattr(os, "kill", may_not_signal)
        # The more threads the tests have, the rarer it looks for new processes.
        time.sleep(_LONGEST_RESCAN_SECONDS)
        reading = tree.read()
    finally:
        monkeypatch.undo()
        child.kill()
        child.wait()
    assert set(reading.values()) == {None}
