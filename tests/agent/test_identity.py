"""The identity of a run, its names, and what is taken out before it is written down."""

from __future__ import annotations

import subprocess
import time
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab import git, identity
from trimtab.identity import ServiceAccess
from trimtab.redaction import redact_command, secrets_of
from trimtab.timeline import SessionTimeline, uuid7
from trimtab.wire import LIMITS

SERVER = ServiceAccess("https://trimtab.example", "tt_abcdefgh")


def test_a_new_run_id_is_a_version_7_uuid_that_sorts_by_time():
    before = time.time_ns() // 1_000_000
    first = uuid7()
    time.sleep(0.003)
    second = uuid7()
    assert (first.version, first.variant) == (7, "specified in RFC 4122")
    assert before <= first.int >> 80 <= time.time_ns() // 1_000_000
    assert first < second


@pytest.mark.parametrize("name", ["TRIMTAB_RUN", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"])
def test_the_nodes_of_one_launch_share_a_run(name):
    first, second = (identity.run_id(SERVER, {name: "4711"}) for _ in range(2))
    assert first == second
    assert first.version == 5
    assert first != identity.run_id(SERVER, {name: "4712"})
    assert first != identity.run_id(
        ServiceAccess("https://other.example", SERVER.token), {name: "4711"}
    )
    assert first != identity.run_id(ServiceAccess(SERVER.url, "tt_zzzzzzzz"), {name: "4711"})


def test_two_launchers_with_one_number_are_two_runs():
    slurm = identity.run_id(SERVER, {"SLURM_JOB_ID": "1"})
    assert slurm != identity.run_id(SERVER, {"TRAINING_JOB_NAME": "1"})


def test_a_uuid_is_taken_as_it_is():
    given_id = "0199a3f2-0000-7000-8000-000000000001"
    assert identity.run_id(SERVER, {"TRIMTAB_RUN": given_id}) == UUID(given_id)


def test_torchruns_missing_id_is_no_id():
    environment = {"TORCHELASTIC_RUN_ID": "none"}
    assert identity.run_id(SERVER, environment) != identity.run_id(SERVER, environment)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 0),
        ({"TORCHELASTIC_RESTART_COUNT": "2"}, 2),
        ({"SLURM_RESTART_COUNT": "1"}, 1),
        ({"TRIMTAB_ATTEMPT": "5", "SLURM_RESTART_COUNT": "1"}, 5),
        ({"TRIMTAB_ATTEMPT": "x"}, 0),
    ],
)
def test_a_restart_is_another_attempt(environment, expected):
    assert identity.attempt(environment) == expected


def test_the_machine_is_named_by_its_instance_or_by_a_hash():
    assert identity.machine_id({"TRIMTAB_MACHINE_ID": "i-0abc"}) == "i-0abc"
    hashed = identity.machine_id({})
    assert hashed == identity.machine_id({})
    assert len(hashed) == 32


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "train.py", "--lr", "1"], "train.py"),
        (["python3.11", "-u", "-m", "pkg.train", "x.py"], "pkg.train"),
        (["torchrun", "--nproc-per-node", "4", "src/train.py"], "src/train.py"),
        (["bash", "run.sh"], "run.sh"),
        (["bash", "-c", "echo 1"], "bash"),
        (["/usr/bin/trainer", "--fast"], "trainer"),
        (["python", "-c", "x = 1\n" * 300 + "y = 1 / x"], "python"),
    ],
)
def test_the_entry_point_is_the_script_or_module(command, expected):
    assert identity.entry_point(command) == expected


def test_a_job_is_named_after_its_repository_and_script(tmp_path, monkeypatch):
    folder = tmp_path / "clone-17"
    (folder / "src").mkdir(parents=True)
    (folder / "src/train.py").touch()
    subprocess.run(["git", "init", "-q", folder], check=True)
    monkeypatch.chdir(folder / "src")
    repository = git.repository(folder / "src")
    assert identity.job_name(["python", "train.py"], repository) == "clone-17/src/train.py"
    origin = "git@example.org:team/vision.git"
    subprocess.run(["git", "-C", folder, "remote", "add", "origin", origin], check=True)
    repository = git.repository(folder / "src")
    assert identity.job_name(["python", "train.py"], repository) == "vision/src/train.py"
    assert identity.job_name(["python", "train.py"], None) == "src/train.py"


@given(st.lists(st.text(), min_size=1, max_size=4), st.integers(1, 3000))
def test_whatever_the_words_a_job_has_a_name(words, times):
    assert len(identity.job_name([word * times for word in words], None)) <= LIMITS.name_chars


def test_the_state_of_the_repository_is_declared(tmp_path):
    def run(*words: str) -> None:
        settings = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", tmp_path, *settings, *words], check=True)

    subprocess.run(["git", "init", "-q", "-b", "main", tmp_path], check=True)
    assert git.state(tmp_path) == git.RepositoryState(branch="main")
    (tmp_path / "a").write_text("1")
    run("add", "a")
    run("commit", "-q", "-m", "one")
    clean = git.state(tmp_path)
    assert (len(clean.commit), clean.branch, clean.dirty) == (40, "main", False)
    (tmp_path / "a").write_text("2")
    assert git.state(tmp_path).dirty
    assert git.state(tmp_path / "nowhere") == git.RepositoryState()


SECRETS = [
    (["--token", "hunter2"], ["--token", "[redacted]"]),
    (["--api-key=hunter2"], ["--api-key=[redacted]"]),
    (["PASSWORD=x", "python"], ["PASSWORD=[redacted]", "python"]),
    (["--db", "postgres://me:pw@host/db"], ["--db", "postgres://[redacted]@host/db"]),
    (["wandb_key:abc"], ["wandb_key:[redacted]"]),
    (["bash", "-c", "HF_TOKEN=abc python t"], ["bash", "-c", "HF_TOKEN=[redacted] python t"]),
    (["hf_" + "aBcD1234efGH"], ["[redacted]"]),
    (["AKIA" + "IOSFODNN7EXAMPLE"], ["[redacted]"]),
    (["--id", "q7Rz0PvK2mXw9LbT4sYd8HnC"], ["--id", "[redacted]"]),
    (["--digest", "0123456789abcdef" * 2], ["--digest", "[redacted]"]),
    (["--secret", "--verbose"], ["--secret", "--verbose"]),
]


@pytest.mark.parametrize(("command", "expected"), SECRETS, ids=str)
def test_a_secret_is_taken_out(command, expected):
    assert redact_command(command) == expected


ORDINARY = [
    ["python", "train.py", "--lr", "1e-4", "--batch-size=256", "--data", "s3://bucket/imagenet"],
    ["torchrun", "--rdzv-endpoint", "node1.cluster.example:29500", "train.py"],
    [
        "--config",
        "configs/resnet50_imagenet_8xb256_cosine.yaml",
        "--tokenizer",
        "bert-base-uncased",
    ],
    ["python", "-m", "torch.distributed.run", "--monitor-interval", "5"],
    ["--checkpoint", "/mnt/data/experiments/2025-01-17/checkpoints/epoch_100/model.pt"],
    ["--model", "meta-llama/Llama-3.1-70B-Instruct", "--max-tokens", "4096"],
]


@pytest.mark.parametrize("command", ORDINARY, ids=str)
def test_ordinary_arguments_stay_readable(command):
    assert redact_command(command) == command


def test_the_values_of_secret_variables_are_found_wherever_they_stand():
    environment = {
        "AWS_SECRET_ACCESS_KEY": "plainwordsecret",
        "PWD": "/home/me",
        "HOME": "/home/me",
    }
    secrets = secrets_of(environment)
    assert secrets == ["plainwordsecret"]
    assert redact_command(["run", "xplainwordsecretx"], secrets) == ["run", "x[redacted]x"]


@given(st.lists(st.text(max_size=30), max_size=6))
def test_redaction_keeps_the_number_of_words_and_never_fails(command):
    assert len(redact_command(command)) == len(command)


def test_session_time_is_the_monotonic_clock_while_nothing_is_suspended():
    timeline = SessionTimeline()
    time.sleep(0.05)
    mono = time.monotonic_ns()
    assert timeline.from_monotonic_ns(mono) == pytest.approx(timeline.now_ns(), abs=20_000_000)
    assert timeline.suspended_ns() == 0
    assert abs(timeline.clock_step_ns()) < 1_000_000_000
