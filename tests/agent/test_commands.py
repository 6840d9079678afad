"""`attach`, `watch`, `init`, `import` and the summary at a terminal, with real processes."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import tarfile
import time
from hashlib import sha256
from pathlib import Path

import pytest

from tests.agent.conftest import TOKEN, trimtab_command
from tests.agent.service import Reply


def _begun(environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    """Start a command that measures until it is told to end; returns when it has begun."""
    agent = subprocess.Popen(
        trimtab_command(*words),
        env=environment,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert "measuring" in agent.stderr.readline()
    return agent


def test_attach_measures_a_running_process_until_it_ends(online, service, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import time; time.sleep(2.5)")
    mine = {"SLURM_JOB_ID": "77", "MY_TOKEN": "hunter2hunter2"}
    words = [sys.executable, str(script), "--name", "hunter2hunter2"]
    training = subprocess.Popen(words, env={**os.environ, **mine}, cwd=tmp_path)
    agent = _begun(online, "attach", str(training.pid))
    assert training.wait(20) == 0
    assert agent.wait(20) == 0
    declared = service.declarations[0]
    assert declared.job == f"{tmp_path.name}/train.py"
    assert declared.run_id.version == 5, "the process's own launcher names the run"
    assert declared.command == [sys.executable, str(script), "--name", "[redacted]"]
    assert max(filter(None, service.series("tree.rss_bytes"))) > 1_000_000
    ended = service.events("session_end")[0].data
    assert (ended["state"], ended["exit_code"]) == ("finished", None)


def test_ctrl_c_detaches_and_leaves_the_process_alone(online, service):
    training = subprocess.Popen(["sleep", "30"])
    agent = _begun(online, "attach", str(training.pid))
    agent.send_signal(signal.SIGINT)
    assert agent.wait(20) == 0
    assert training.poll() is None
    training.kill()
    training.wait()
    assert len(service.events("session_end")) == 1


def test_attach_says_why_it_can_not(trimtab, environment):
    gone = trimtab(environment, "attach", "4194303")
    assert (gone.returncode, "there is no process" in gone.stderr) == (1, True)
    script = f"exec {' '.join(trimtab_command('attach', '$$'))}"
    twice = trimtab(environment, "run", "--", "bash", "-c", script)
    assert twice.returncode == 1
    assert "already measured" in twice.stderr
    assert trimtab(environment, "attach", "me").returncode == 2


def test_watch_measures_the_machine_without_a_job(online, service):
    agent = _begun(online, "watch", "--interval", "0.1", "--tag", "rack=7")
    time.sleep(1)
    agent.terminate()
    assert agent.wait(20) == 0
    declared = service.declarations[0]
    assert declared.job == f"machine/{os.uname().nodename}"
    assert (declared.tags, declared.command) == ({"rack": "7"}, [])
    assert any(value is not None for value in service.series("host.cpu_busy_pct"))
    assert service.series("tree.rss_bytes") == []


def test_init_remembers_what_the_service_takes(trimtab, environment, service, tmp_path):
    service.answer = lambda r: Reply(status=400 if r.body == b"" else 200)
    done = trimtab(environment, "init", "--url", f"{service.url}/", "--token", TOKEN)
    assert (done.returncode, done.stderr) == (0, "")
    kept = tmp_path / "config" / "trimtab" / "service.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_text()) == {"url": service.url, "token": TOKEN}
    trimtab(environment, "run", "--", "true")
    assert service.requests[-1].headers["Authorization"] == f"Bearer {TOKEN}"
    assert len(service.segments) == 1


def test_a_remembered_token_goes_to_no_other_address(trimtab, environment, service):
    trimtab(environment, "init", "--force", "--url", "http://127.0.0.1:9", "--token", TOKEN)
    service.requests.clear()
    trimtab(environment | {"TRIMTAB_URL": service.url}, "run", "--", "true")
    assert service.requests
    assert all(TOKEN not in r.headers["Authorization"] for r in service.requests)


@pytest.mark.parametrize(
    ("status", "text"), [(401, "token"), (404, "Trimtab's address"), (200, "Trimtab's address")]
)
def test_init_remembers_nothing_that_does_not_work(
    trimtab, environment, service, tmp_path, status, text
):
    service.answer = lambda r: Reply(status=status)
    done = trimtab(environment, "init", "--url", service.url, "--token", TOKEN)
    assert done.returncode == 1
    assert text in done.stderr
    assert not (tmp_path / "config").exists()
    assert trimtab(environment, "init", "--url", "ftp://x", "--token", "t").returncode == 2
    assert trimtab(environment, "init").returncode == 2


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "old-run"
    (folder / "system").mkdir(parents=True)
    (folder / "system" / "a.json").write_text("{}")
    (folder / "b.csv").write_text("t,v\n")
    (folder / "secret-link").symlink_to("/etc/passwd")
    return folder


def test_a_folder_is_imported_in_parts_and_again_as_the_same(trimtab, online, service, tmp_path):
    folder = _folder(tmp_path)
    first = trimtab(online, "import", str(folder), "--job", "vision")
    assert (first.returncode, first.stderr) == (0, "")
    os.utime(folder)
    assert trimtab(online, "import", str(folder), "--job", "vision").returncode == 0
    part, whole, *again = service.artefacts
    assert [part, whole] == again
    assert (part.kind, part.name, part.job) == ("import-part", "old-run.tar.gz.001", "vision")
    assert f"{service.url}/runs/{part.run}" in first.stdout
    with tarfile.open(fileobj=io.BytesIO(part.body)) as archive:
        assert archive.getnames() == ["b.csv", "system/a.json"]
        assert {m.uname for m in archive.getmembers()} == {""}
    assert (whole.kind, whole.name) == ("import", "old-run.import.json")
    said = json.loads(whole.body)
    assert said["parts"] == [sha256(part.body).hexdigest()]
    assert (said["name"], said["stated"]["job"], said["describe"]) == ("old-run", "vision", None)


def _tells(service, *told: dict) -> None:
    """Let the service tell one state of the import after the other."""
    left = iter(told)

    def answer(request):  # type: ignore[no-untyped-def]
        if request.path.endswith("/imports"):
            return Reply(text=json.dumps([next(left)]))
        return Reply()

    service.answer = answer


def test_it_waits_for_the_conversion_and_prints_the_place(trimtab, online, service, tmp_path):
    _tells(
        service,
        {"state": "due", "place": 3, "stage": ""},
        {"state": "due", "place": None, "continues_at": "2026-11-28T22:00:00Z"},
        {"state": "under_way", "stage": "Converting"},
        {"state": "done", "format": "CSV", "records": 5},
    )
    done = trimtab(online, "import", str(_folder(tmp_path)), "--wait", "60")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-4:] == [
        "waits at place 3 in line",
        "waits for the workspace's quota until 2026-11-28T22:00:00Z",
        "Converting",
        "converted from CSV: 5 records",
    ]


def test_it_says_that_the_conversion_failed_or_is_not_done(trimtab, online, service, tmp_path):
    folder = _folder(tmp_path)
    reasons = [{"what": "lines", "why": "no time", "count": 3, "first": "gpus.csv"}]
    _tells(service, {"state": "failed", "error": "no line with a time", "reasons": reasons})
    failed = trimtab(online, "import", "--wait", str(folder))
    assert failed.returncode == 1
    assert failed.stderr == "trimtab: the import failed: no line with a time\n"
    assert failed.stdout.endswith("\n  lines skipped: 3, no time (the first: gpus.csv)\n")
    _tells(service, {"state": "due", "place": 1})
    early = trimtab(online, "import", str(folder), "--wait", "0")
    assert early.returncode == 3
    assert "not converted after 0 s" in early.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nothere"], "nothere doesn't exist. Name a folder or a file."),
        (
            ["https://example.com/a.json"],
            "https://example.com/a.json can't be fetched. Download it",
        ),
        (["s3:/bucket/prefix"], "Addresses that can be fetched begin with s3://,"),
        (["PATH", "--interval-seconds", "0"], "--interval-seconds must be above 0. Example: "),
        (["PATH", "--started-at", "yesterday"], "--started-at yesterday is no time. Example: "),
        (["PATH", "--column", "GPU"], "--column GPU names no series. Example: GPU=gpu0.busy_pct"),
        (["PATH", "--describe", "nothere.json"], "nothere.json can't be read: No such file"),
        (["PATH", "--describe", "PATH/b.csv"], "is no description of a training job. Save the"),
        (["mlflow+http://127.0.0.1:1/x"], "the address names no run. Use that of the run's page"),
        (["prometheus+http://127.0.0.1:9"], "--start says from when. Example: --start 2026-"),
        (
            ["prometheus+http://127.0.0.1:9", "--start", "2026-11-01"],
            "Write 2026-11-01T00:00:00Z for UTC, or 2026-11-01T00:00:00+01:00.",
        ),
    ],
)
def test_an_import_that_cannot_begin_says_why_and_one_step(
    words, why, trimtab, online, service, tmp_path
):
    folder = str(_folder(tmp_path))
    done = trimtab(online, "import", *(word.replace("PATH", folder) for word in words))
    assert done.returncode == 2
    assert why in done.stderr
    assert not service.artefacts


def test_an_import_says_what_the_person_and_aws_say(trimtab, online, service, tmp_path):
    described = tmp_path / "described.json"
    described.write_text('{"TrainingJobName": "vision-2026-07-10-03-21-06-061"}')
    folder = _folder(tmp_path).rename(tmp_path / "vision-2026-07-10-03-21-06-061")
    words = (
        "--describe",
        str(described),
        "--region",
        "us-west-2",
        "--column",
        "GPU=a=gpu0.busy_pct",
        "--started-at",
        "2026-11-24T08:00:00Z",
        "--interval-seconds",
        "0.5",
    )
    assert trimtab(online, "import", str(folder / "system"), *words).returncode == 0
    part, whole = service.artefacts
    assert part.job == whole.job == "vision"
    said = json.loads(whole.body)
    columns = {"GPU=a": "gpu0.busy_pct"}
    assert said["stated"] == {
        "job": "",
        "region": "us-west-2",
        "columns": columns,
        "started_at": "2026-11-24T08:00:00+00:00",
        "interval_seconds": 0.5,
    }
    assert said["describe"] == json.loads(described.read_text())
    described.write_text("[]")
    wrong = trimtab(online, "import", str(folder), "--describe", str(described))
    assert wrong.returncode == 2
    assert "describe-training-job" in wrong.stderr
    late = trimtab(online, "import", str(folder), "--started-at", "yesterday")
    assert late.returncode == 2
    assert "--started-at yesterday is no time" in late.stderr
    unnamed = trimtab(online, "import", str(folder), "--column", "GPU")
    assert unnamed.returncode == 2
    assert "--column GPU names no series" in unnamed.stderr


def test_an_import_without_a_service_waits_for_sync(
    trimtab, environment, online, service, tmp_path
):
    kept = trimtab(environment, "import", str(_folder(tmp_path)))
    assert kept.returncode == 1
    assert "sync" in kept.stderr
    assert trimtab(online, "sync").returncode == 0
    assert [a.job for a in service.artefacts] == ["old-run", "old-run"]
    assert trimtab(environment, "import", "/nowhere").returncode == 2


def test_a_folder_without_files_is_not_imported(trimtab, online, service, tmp_path):
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    (tmp_path / "empty" / "link").symlink_to("/etc/passwd")
    refused = trimtab(online, "import", str(tmp_path / "empty"))
    assert refused.returncode == 2
    assert "has no files" in refused.stderr
    assert service.artefacts == []


def test_an_import_that_is_refused_says_so(trimtab, online, service, tmp_path):
    service.answer = lambda r: Reply(status=400, document={"detail": "no known format"})
    done = trimtab(online, "import", str(_folder(tmp_path)))
    assert done.returncode == 1
    assert "no known format" in done.stderr


def _at_a_terminal(environment: dict[str, str], *words: str) -> str:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(sys.executable, trimtab_command(*words), environment)  # noqa: S606
    output = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.waitpid(pid, 0)
    return output.decode()


def test_a_person_at_a_terminal_reads_the_cost_and_the_top_finding(online, service):
    finding = {"title": "Waiting for data", "waste_usd_high": "0.0042"}
    small = {"title": "Too many cores", "waste_usd_high": None}
    run = {"analysis_is_final": True, "cost_usd": "0.0123", "findings": [small, finding]}
    service.answer = lambda r: Reply(document=run if r.method == "GET" else {})
    output = _at_a_terminal(online, "run", "--", "true")
    (line,) = [line for line in output.splitlines() if line.startswith("trimtab:")]
    assert "$0.0123, Waiting for data (up to $0.0042 wasted)" in line
    assert line.endswith(f"{service.url}/runs/{service.declarations[0].run_id}")


@pytest.mark.parametrize("answer", [{}, {"cost_usd": None, "findings": "none"}, {"cost_usd": "x"}])
def test_a_service_without_an_analysis_yet_does_not_delay_the_end(online, service, answer):
    service.answer = lambda r: Reply(document=answer)
    began = time.monotonic()
    output = _at_a_terminal(online, "run", "--", "true")
    assert "finished in" in output
    assert time.monotonic() - began < 6.5


def test_every_command_has_help(trimtab, environment):
    listed = trimtab(environment, "--help").stdout
    for name in ("run", "attach", "watch", "doctor", "init", "import", "sync", "status"):
        assert f"    {name} " in listed
        done = trimtab(environment, name, "--help")
        assert (done.returncode, done.stderr) == (0, "")
    assert trimtab(environment, "rum").returncode == 2
    assert trimtab(environment).returncode == 2
