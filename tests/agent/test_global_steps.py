"""Numbers of steps within the whole training, and loads of checkpoints, as a script's agent tells
them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from trimtab.hooks.restoring import step_of
from trimtab.requeue import requeue_id
from trimtab.ring import NOT_KNOWN

from tests.agent.torch_python import NEEDS_TORCH, PYTHON

LOOP = """
import sys, time, trimtab
first, last = map(int, sys.argv[1:])
for number in range(first, last + 1):
    time.sleep(0.002)
    trimtab.step(samples=1, number=number)
"""


def told(service) -> list[int]:
    return [event.data["step"] for event in service.events("global_step")]


def test_a_script_tells_the_numbers_of_its_steps_when_they_jump(trimtab, online, service):
    jump = LOOP + "for number in (5, 6): trimtab.step(number=number)\n"
    done = trimtab(online, "run", "--", sys.executable, "-c", jump, "1201", "1230")
    assert (done.stderr, done.returncode) == ("", 0)
    assert told(service) == [1201, 5], "the others follow from the steps since"


def test_a_number_that_is_none_is_no_error(trimtab, online, service):
    script = "import trimtab\nfor n in (None, 'x', 3): trimtab.step(number=n)"
    done = trimtab(online, "run", "--", sys.executable, "-c", script)
    assert done.returncode == 0
    assert "step() was not recorded" in done.stderr
    assert told(service) == [3]


def test_a_process_says_when_it_began_and_how_often_it_was_restarted(trimtab, online, service):
    script = "import time; time.sleep(1.2)\n" + LOOP
    environment = online | {"RANK": "0", "TORCHELASTIC_RESTART_COUNT": "2"}
    trimtab(environment, "run", "--", sys.executable, "-c", script, "1", "3")
    (rank,) = service.events("rank")
    (first, *_) = [block for segment in service.segments for block in segment.steps]
    assert rank.data["restarts"] == 2
    began_ms = rank.time_ms - 1000 * rank.data.get("ago_seconds", 0)
    assert first.start_us[0] / 1000 - began_ms >= 1200


def test_the_training_and_the_job_of_the_scheduler_are_declared(trimtab, online, service):
    slurm = {"SLURM_JOB_ID": "77", "SLURM_CLUSTER_NAME": "green", "TRIMTAB_TRAINING": "llm-7"}
    for arguments, key in (((), "llm-7"), (("--training", "other"), "other")):
        trimtab(online | slurm, "run", *arguments, "--", "true")
        declared = service.declarations[-1]
        assert (declared.training, declared.requeue) == (key, "slurm/green/77")


def test_the_job_that_a_scheduler_starts_again(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "namespace").write_text("research\n")
    monkeypatch.setattr("socket.gethostname", lambda: "llm-7-3")

    def found(**environment: str) -> str:
        return requeue_id(environment, tmp_path / "namespace")

    assert found() == ""
    assert found(TRAINING_JOB_NAME="bert-2026") == "sagemaker/bert-2026"
    assert found(TORCHELASTIC_RUN_ID="none") == ""
    assert found(TORCHELASTIC_RUN_ID="abc") == "torchelastic/abc"
    assert found(JOB_COMPLETION_INDEX="3") == "kubernetes/research/llm-7"
    assert found(JOB_COMPLETION_INDEX="4") == "", "no pod of an indexed job"


class Hostile(dict):
    def get(self, *_):
        raise AssertionError("asked")


@pytest.mark.parametrize(
    ("result", "file", "step"),
    [
        ({"global_step": 12, "epoch": 3}, "x.pt", 12),
        ({"step": True}, "x.pt", NOT_KNOWN),
        ({"step": 1.5}, "x.pt", NOT_KNOWN),
        ({"step": -3}, "x.pt", NOT_KNOWN),
        (Hostile(), "x.pt", NOT_KNOWN),
        ({}, "runs/step_1200.pt", 1200),
        ({}, "runs/global_step120/model.pt", 120),
        ({}, "runs/iter-0000500.pt", 500),
        ({}, "runs/checkpoint_3.pt", NOT_KNOWN),
        ({}, "runs/epoch=3-step=400.ckpt", 400),
        ({}, "runs/footstep7.pt", NOT_KNOWN),
        ({}, None, NOT_KNOWN),
        ({}, 7, NOT_KNOWN),
    ],
)
def test_the_step_in_a_checkpoint_is_read_from_names_and_whole_numbers(result, file, step):
    assert step_of(result, file) == step


def test_the_state_that_hugging_face_writes_beside_its_files(tmp_path: Path) -> None:
    state = {"epoch": 2.0, "global_step": 700, "log_history": [{"step": 5}] * 10_000}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state, indent=2, sort_keys=True))
    assert step_of({}, tmp_path / "optimizer.pt") == 700


def test_the_head_of_a_safetensors_file(tmp_path: Path) -> None:
    head = json.dumps({"__metadata__": {"step": "34"}, "w": {"dtype": "F32"}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(99))
    assert step_of({}, tmp_path / "a.safetensors") == 34
    (tmp_path / "b.safetensors").write_bytes(os.urandom(64))
    assert step_of({}, tmp_path / "b.safetensors") == NOT_KNOWN


TORCH = """
import os, sys, time, torch
from torch import nn
torch.set_num_threads(1)
model = nn.Linear(8, 3)
optimizer = getattr(torch.optim, sys.argv[1])(model.parameters(), lr=0.1)
if os.path.exists("model.pt"):
    saved = torch.load("model.pt")
    model.load_state_dict(saved["model"])
    if "optimizer" in saved: optimizer.load_state_dict(saved["optimizer"])
for _ in range(30):
    loss = model(torch.randn(4, 8)).sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    time.sleep(0.02)
torch.save({"model": model.state_dict(), **eval(sys.argv[2])}, "model.pt")
"""


@pytest.mark.parametrize(
    ("optimizer", "saves", "restored", "numbers"),
    [
        ("Adam", "{'optimizer': optimizer.state_dict()}", None, [31]),
        ("SGD", "{'step': 30}", 30, []),
    ],
)
@pytest.mark.torch
def test_a_torch_training_that_continues(
    trimtab, online, service, tmp_path, optimizer, saves, restored, numbers
):
    """The numbers go on by the optimizer's own count, and by the step in its checkpoint."""
    here = online | {"HOME": str(tmp_path)}
    script = f"import os; os.chdir({str(tmp_path)!r})\n{TORCH}"
    command = ("run", "--", PYTHON, "-W", "ignore", "-c", script, optimizer, saves)
    for _ in range(2):
        assert trimtab(here, *command).returncode == 0
    loads = [event.data["step"] for event in service.events("restore")]
    assert loads == ([restored] if restored else [])
    assert told(service)[1 if optimizer == "Adam" else 0 :] == numbers
    saved = [event.data["fingerprint"] for event in service.events("checkpoint_saved")]
    (loaded,) = [event.data["fingerprint"] for event in service.events("checkpoint_loaded")]
    assert loaded == saved[0] != saved[1], "the file that the first run left"


test_a_torch_training_that_continues.pytestmark += NEEDS_TORCH[1:]
