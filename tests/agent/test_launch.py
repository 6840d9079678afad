"""The start of a command by `trimtab run`, where `test_surroundings.py` doesn't look."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agent.conftest import trimtab_command

IGNORED = ("grep", "SigIgn", "/proc/self/status")


@pytest.mark.parametrize("depth", [1, 2], ids=["run", "a run inside a run"])
def test_signals_that_python_ignores_have_their_usual_effect(environment, depth):
    """SIGPIPE and SIGXFSZ: `yes | head` would print errors instead of ending."""
    bare = subprocess.run(IGNORED, capture_output=True, text=True)
    words = [*trimtab_command("run", "--") * depth, *IGNORED]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (bare.stdout, "")


def test_a_script_without_an_interpreter_line_is_run_by_the_shell(trimtab, environment, tmp_path):
    script = tmp_path / "train"
    script.write_text('echo "$0" "$@"; exit 4\n')
    script.chmod(0o755)
    on_path = environment | {"PATH": f"{tmp_path}:{environment['PATH']}"}
    done = trimtab(on_path, "run", "--", "train", "--lr", "a b")
    assert (done.stdout, done.returncode) == (f"{script} --lr a b\n", 4)


def test_a_hang_up_that_the_command_ignores_does_not_stop_the_run(online, service, tmp_path):
    """The terminal ends, as after `nohup trimtab run -- ... &`."""
    ready = tmp_path / "ready"
    script = f"import os, signal, time; open({str(ready)!r}, 'w'); time.sleep(1.5)"
    agent = subprocess.Popen(
        trimtab_command("run", "--", sys.executable, "-c", script),
        env=online,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    while not ready.exists() and agent.poll() is None:
        time.sleep(0.02)
    agent.send_signal(signal.SIGHUP)
    assert agent.wait(30) == 0
    assert service.events("session_end")[0].data["state"] == "finished"


def _with_open_files(most: int, environment: dict[str, str], place: Path):
    words = shlex.join(trimtab_command("run", "--", "sh", "-c", "ulimit -n; sleep 0.6; exit 3"))
    limited = ["bash", "-c", f"ulimit -n {most}; exec {words}"]
    return subprocess.run(limited, env=environment, cwd=place, capture_output=True, text=True)


@pytest.mark.parametrize("most", [8, 20, 30])
def test_a_very_low_limit_of_open_files_costs_the_measurement(online, service, tmp_path, most):
    done = _with_open_files(most, online, tmp_path)
    assert (done.stdout, done.returncode) == (f"{most}\n", 3)
    (line,) = done.stderr.splitlines()
    assert line.startswith("trimtab: the command runs without being measured: the agent can open")
    assert service.requests == []


def test_a_low_limit_of_open_files_costs_some_series(online, service, tmp_path):
    done = _with_open_files(44, online, tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("44\n", "", 3)
    names = {name for block in service.segments[0].blocks for name in block.columns}
    assert {"host.cpu_busy_pct", "tree.cpu_seconds_total"} <= names


def test_the_agents_own_limit_is_not_the_commands(online, service, tmp_path):
    """A soft limit is meant for the command; the agent goes up to the hard one."""
    words = shlex.join(trimtab_command("run", "--", "sh", "-c", "ulimit -n"))
    done = subprocess.run(
        ["bash", "-c", f"ulimit -S -n 20; exec {words}"],
        env=online,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("20\n", "")
    assert len(service.segments) == 1


def test_a_locale_that_python_adds_does_not_reach_the_command(environment, tmp_path):
    """Python sets LC_CTYPE in the C locale: other programs would sort and print otherwise."""
    bare = {name: value for name, value in environment.items() if not name.startswith("LC_")}
    words = trimtab_command("run", "--no-hook", "--", "env")
    for locale in ({"LANG": "C"}, {"LANG": "C", "LC_CTYPE": "C"}):
        done = subprocess.run(
            words, env=bare | locale, cwd=tmp_path, capture_output=True, text=True
        )
        seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        assert seen.get("LC_CTYPE") == locale.get("LC_CTYPE")
        assert os.environ.get("PATH") == seen["PATH"]
