"""`trimtab run` with real processes against a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agent.conftest import trimtab_command
from tests.agent.service import Reply


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)],
)
def test_the_exit_code_is_the_commands_own(trimtab, environment, script, code):
    assert trimtab(environment, "run", "--", "bash", "-c", script).returncode == code


def test_a_command_that_is_not_there_is_127_and_leaves_no_run(trimtab, online, service):
    done = trimtab(online, "run", "--", "no-such-command-anywhere")
    assert done.returncode == 127
    assert "no-such-command-anywhere" in done.stderr
    assert service.requests == []


def test_a_file_that_may_not_be_run_is_126(trimtab, environment, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert trimtab(environment, "run", "--", str(script)).returncode == 126


def test_it_is_quiet_without_a_terminal_and_passes_output_through(trimtab, online):
    done = trimtab(online, "run", "--", "bash", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_standard_input_reaches_the_command(online):
    done = subprocess.run(
        trimtab_command("run", "--", "cat"),
        env=online,
        input="hello",
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == "hello"


def test_a_run_arrives_whole(trimtab, online, service):
    done = trimtab(online, "run", "--job", "digits", "--", "sleep", "1.3")
    assert done.returncode == 0
    declared = service.declarations[0]
    assert declared.job == "digits"
    assert declared.node.vcpus == os.cpu_count()
    assert 0 < declared.node.effective_cpus <= declared.node.vcpus
    (segment,) = service.segments
    assert segment.refused == []
    assert segment.run_id == declared.run_id
    assert segment.clock.session_id == declared.session_id
    assert len(segment.blocks[0].times_ms) == 3
    assert segment.duration_ms == pytest.approx(1300, abs=500)
    assert {e.kind for e in segment.events} == {"process_start", "process_exit", "session_end"}
    ended = service.events("session_end")[0].data
    assert ended == {"state": "finished", "exit_code": 0, "final_seq": 0}


def test_every_promised_series_is_there(trimtab, online, service):
    trimtab(online, "run", "--interval", "0.2", "--", "sleep", "0.9")
    found = set(service.segments[0].blocks[0].columns)
    expected = [
        "host.cpu_busy_pct",
        "host.cpu_user_pct",
        "host.cpu_system_pct",
        "host.cpu_iowait_pct",
        "host.cpu_steal_pct",
        "cpu0.busy_pct",
        "host.memory_used_bytes",
        "host.memory_available_bytes",
        "host.swap_used_bytes",
        "tree.cpu_seconds_total",
        "tree.run_delay_seconds_total",
        "tree.starved_seconds_total",
        "tree.rss_bytes",
        "tree.processes_count",
        "tree.threads_count",
        "tree.suspended_count",
        "tree.read_bytes_total",
        "tree.written_bytes_total",
        "agent.cpu_seconds_total",
        "agent.rss_bytes",
        "agent.tick_late_ms",
    ]
    assert set(expected) <= found


def test_requests_carry_the_documented_headers(trimtab, online, service):
    before = time.time_ns()
    trimtab(online, "run", "--", "true")
    last = service.requests[-1]
    assert last.headers["Authorization"] == f"Bearer {online['TRIMTAB_TOKEN']}"
    assert last.headers["Content-Encoding"] == "gzip"
    assert last.headers["Content-Type"] == "application/vnd.trimtab.segment+json"
    assert before < int(last.headers["X-Trimtab-Sent-At"]) < time.time_ns()
    assert service.requests[0].headers["Content-Type"] == (
        "application/vnd.trimtab.declaration+json"
    )


def test_options_of_the_user_are_declared(trimtab, online, service):
    said = [
        "--owner",
        "ana",
        "--tag",
        "team=vision",
        "--instance-type",
        "c7i.large",
        "--region",
        "us-east-1",
    ]
    said += ["--provider", "aws", "--service", "EC2", "--purchase-option", "spot", "--owns-machine"]
    said += [
        "--param",
        "lr=0.1",
        "--param",
        "epochs=3",
        "--param",
        "amp=true",
        "--param",
        "api_key=abc",
    ]
    extra = {"TRIMTAB_TAGS": "a=1,b=2", "TRIMTAB_WORKLOAD": "dataset=digits"}
    trimtab(online | extra, "run", *said, "--", sys.executable, "-c", "pass")
    declared = service.declarations[0]
    assert declared.owner == "ana"
    assert declared.tags == {"a": "1", "b": "2", "team": "vision"}
    assert declared.parameters == {"lr": 0.1, "epochs": 3, "amp": True, "api_key": "[redacted]"}
    assert declared.workload["dataset"] == "digits"
    node = declared.node
    assert (node.instance_type, node.region, node.provider) == ("c7i.large", "us-east-1", "aws")
    assert (node.service, node.purchase_option, node.owns_machine) == ("EC2", "spot", True)


def test_words_that_are_not_unicode_arrive_too(trimtab, online, service):
    tags = {"TRIMTAB_TAGS": "team=\udcff"}
    trimtab(online | tags, "run", "--", "sh", "-c", "exit 0", "caf\udce9.sh", "--batch=8")
    declared = service.declarations[0]
    assert declared.job.endswith("caf?.sh")
    assert declared.tags == {"team": "?"}
    assert declared.command[-2:] == ["caf?.sh", "--batch=8"]
    assert service.segments[0].job == declared.job


def test_the_result_file_says_what_happened(trimtab, online, service, tmp_path):
    path = tmp_path / "result.json"
    trimtab(online, "run", "--result-file", str(path), "--", "bash", "-c", "exit 4")
    result = json.loads(path.read_text())
    run_id = str(service.segments[0].run_id)
    assert result.pop("seconds") > 0
    assert result == {
        "run_id": run_id,
        "url": f"{service.url}/runs/{run_id}",
        "exit_code": 4,
        "uploaded": 1,
        "spooled": 0,
    }


def test_a_server_that_hangs_delays_the_exit_for_five_seconds_at_most(trimtab, online, service):
    service.answer = lambda request: Reply(delay_seconds=30)
    began = time.monotonic()
    assert trimtab(online, "run", "--", "true").returncode == 0
    assert time.monotonic() - began < 6.5


@pytest.mark.parametrize("disaster", ["read_only", "not_a_database", "memory_only"])
def test_the_training_runs_and_arrives_whatever_happens_to_the_spool(
    trimtab, online, service, tmp_path, disaster
):
    state = tmp_path / "state"
    if disaster == "not_a_database":
        state.mkdir()
        (state / "spool.sqlite3").write_bytes(b"not a database at all" * 500)
    else:
        online = online | {"TRIMTAB_STATE_DIR": "/proc/nowhere"}
    if disaster == "memory_only":
        (tmp_path / "tmp" / f"trimtab-{os.getuid()}").touch()
    done = trimtab(online, "run", "--", "bash", "-c", "echo trained; exit 5")
    assert (done.stdout, done.returncode) == ("trained\n", 5)
    assert ("memory only" in done.stderr) == (disaster == "memory_only")
    assert len(service.segments) == 1


def test_samples_lost_with_the_memory_are_reported(trimtab, environment, tmp_path):
    (tmp_path / "tmp" / f"trimtab-{os.getuid()}").touch()
    nowhere = {"TRIMTAB_STATE_DIR": "/proc/nowhere", "TRIMTAB_URL": "http://127.0.0.1:9"}
    done = trimtab(environment | nowhere, "run", "--", "bash", "-c", "exit 5")
    assert done.returncode == 5
    assert "lost: the samples were in memory only" in done.stderr


def test_a_broken_spool_is_set_aside_and_the_run_still_arrives(trimtab, online, service, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    (state / "spool.sqlite3").write_bytes(b"not a database at all" * 500)
    trimtab(online, "run", "--", "true")
    assert len(service.segments) == 1
    assert [p.name for p in state.iterdir() if "broken" in p.name]


def test_a_full_disk_costs_nothing_but_memory(trimtab, online, service, tmp_path):
    """A file size limit of the process stands for the full disk."""
    limited = f"ulimit -f 8; exec {' '.join(trimtab_command('run', '--', 'sleep', '1'))}"
    done = subprocess.run(
        ["bash", "-c", limited], env=online, cwd=tmp_path, capture_output=True, timeout=30
    )
    assert done.returncode == 0
    assert len(service.segments) == 1


def test_the_spool_is_private(trimtab, environment, tmp_path):
    trimtab(environment, "run", "--", "true")
    assert (tmp_path / "state" / "spool.sqlite3").stat().st_mode & 0o777 == 0o600


def _started(environment: dict[str, str], script: str, tmp_path: Path) -> subprocess.Popen[str]:
    ready = tmp_path / "ready"
    agent = subprocess.Popen(
        trimtab_command("run", "--", "bash", "-c", script.format(ready=ready)),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    for _ in range(400):
        if ready.exists():
            return agent
        time.sleep(0.02)
    raise AssertionError("the command did not start")


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "USR1", "ALRM", "XCPU"])
def test_a_signal_reaches_the_command_once(online, service, tmp_path, name):
    script = (
        f"trap 'echo {name}' {name}; touch {{ready}}; for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done"
    )
    agent = _started(online, script, tmp_path)
    agent.send_signal(getattr(signal, f"SIG{name}"))
    output, _ = agent.communicate(timeout=20)
    assert output == f"{name}\n"
    assert agent.returncode == 0


def test_a_terminated_run_is_stopped(online, service, tmp_path):
    agent = _started(online, "touch {ready}; exec sleep 30", tmp_path)
    agent.terminate()
    agent.wait(20)
    assert agent.returncode == 143
    assert service.events("session_end")[0].data["state"] == "stopped"


def test_the_training_outlives_a_killed_agent(environment, tmp_path):
    """A monitor must never be the reason that a training is lost."""
    agent = _started(environment, "touch {ready}; sleep 0.6; touch {ready}.after", tmp_path)
    agent.kill()
    agent.wait(5)
    time.sleep(1.2)
    assert (tmp_path / "ready.after").exists()


def test_ctrl_c_in_a_terminal_reaches_the_command_once(online, tmp_path):
    import pty

    script = "trap 'echo heard' INT; echo ready; for i in 1 2 3 4 5 6; do sleep 0.1; done; exit 7"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(sys.executable, trimtab_command("run", "--", "bash", "-c", script), online)  # noqa: S606
    output = b""
    while b"ready" not in output:
        output += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    while True:
        try:
            piece = os.read(terminal, 1000)
        except OSError:
            break
        if not piece:
            break
        output += piece
    _, status = os.waitpid(pid, 0)
    assert output.count(b"heard") == 1
    assert os.waitstatus_to_exitcode(status) == 7
    assert b"trimtab: stopped in" in output
    assert b"1 segment uploaded" in output


@pytest.mark.parametrize("closed", ["0", "1", "2", "0 1 2"])
def test_a_closed_stream_is_no_reason_to_fail(online, service, tmp_path, closed):
    """A service manager or `2>&-` leaves a stream so."""
    words = " ".join(trimtab_command("run", "--", "bash", "-c", "'exit 5'"))
    closing = " ".join(f"{number}>&-" for number in closed.split())
    done = subprocess.run(["bash", "-c", f"{words} {closing}"], env=online, cwd=tmp_path)
    assert done.returncode == 5
    assert len(service.segments) == 1


def test_an_empty_word_is_nothing_to_run(trimtab, online):
    """The command `trimtab run -- "$COMMAND"` gives it where nobody set that."""
    for words in ((), ("",), ("", "train.py")):
        done = trimtab(online, "run", "--", *words)
        assert done.returncode == 2
        assert "no command to run" in done.stderr


def test_the_exit_code_is_known_also_where_ended_children_are_ignored(online, service, tmp_path):
    """A parent that ignores SIGCHLD hands that on to what it starts."""
    words = [*trimtab_command("run", "--", "bash", "-c", "exit 5")]
    ignoring = "import os, signal; signal.signal(17, signal.SIG_IGN); "
    ignoring += f"os.execv({words[0]!r}, {words})"
    done = subprocess.run([sys.executable, "-c", ignoring], env=online, cwd=tmp_path)
    assert done.returncode == 5
    assert service.events("session_end")[0].data["exit_code"] == 5


def test_a_home_that_can_not_be_looked_into_is_left_for_another_folder(trimtab, online, service):
    """The home may be another user's, which `sudo` or a container may hand on; here its name is too
    long.
    """
    known = {k: v for k, v in online.items() if k not in ("TRIMTAB_STATE_DIR", "XDG_CONFIG_HOME")}
    done = trimtab(known | {"HOME": "/" + "x" * 300}, "run", "--", "bash", "-c", "exit 5")
    assert (done.returncode, done.stderr) == (5, "")
    assert len(service.segments) == 1


def test_a_working_folder_that_is_gone_keeps_nothing_from_being_measured(online, service, tmp_path):
    (tmp_path / "gone").mkdir()
    words = " ".join(trimtab_command("run", "--", "bash", "-c", "'exit 5'"))
    script = f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && {words}"
    done = subprocess.run(["bash", "-c", script], env=online, capture_output=True, text=True)
    assert done.returncode == 5
    assert "trimtab:" not in done.stderr
    assert len(service.segments) == 1
    assert service.declarations[0].job == "gone/bash"


def test_disabling_runs_the_bare_command(trimtab, online, service):
    script = "echo ${TRIMTAB_RUN_DIR:-bare}"
    done = trimtab(online | {"TRIMTAB_DISABLE": "1"}, "run", "--", "bash", "-c", script)
    assert done.stdout == "bare\n"
    assert service.requests == []


def test_nothing_is_left_in_the_temporary_folder(trimtab, online, tmp_path):
    trimtab(online, "run", "--", "true")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_next_run_sweeps_what_a_killed_agent_left(trimtab, environment, tmp_path):
    temporary = tmp_path / "tmp"
    (temporary / "trimtab-run-4194999-gone").mkdir(parents=True)
    (temporary / f"trimtab-run-{os.getpid()}-alive").mkdir()
    trimtab(environment, "run", "--", "true")
    assert [path.name for path in temporary.iterdir()] == [f"trimtab-run-{os.getpid()}-alive"]


def test_a_tree_of_twenty_processes_is_followed(trimtab, online, service):
    """Four parents with four children each: all are seen, and their CPU time is counted."""
    child = "for i in 1 2 3 4; do (sleep 6; :) & done; wait"
    script = f"for i in 1 2 3 4; do bash -c '{child}; :' & done; wait"
    trimtab(online, "run", "--interval", "0.2", "--", "bash", "-c", script)
    counts = [int(c) for c in service.series("tree.processes_count") if c]
    assert max(counts) >= 1 + 4 + 16


def test_the_hook_can_be_left_out(trimtab, online, service):
    script = "import os; print('injected' in os.environ.get('PYTHONPATH', ''))"
    assert trimtab(online, "run", "--", sys.executable, "-c", script).stdout == "True\n"
    done = trimtab(online, "run", "--no-hook", "--", sys.executable, "-c", script)
    assert done.stdout == "False\n"


def test_a_wrong_variable_keeps_no_training_from_running(trimtab, online):
    wrong = {"TRIMTAB_PROFILE_STEPS": "all", "TRIMTAB_SPOOL_MIB": "much", "TRIMTAB_TAGS": "=,=,"}
    assert trimtab(online | wrong, "run", "--", "bash", "-c", "exit 7").returncode == 7
