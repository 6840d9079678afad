"""A profile on demand: torch's own profiler over a few steps, uploaded as an artefact."""

from __future__ import annotations

import gzip
import json
import subprocess

from tests.agent.conftest import TOKEN, trimtab_command
from tests.agent.service import Reply
from tests.agent.torch_python import NEEDS_TORCH, PYTHON

pytestmark = NEEDS_TORCH

TRAINING = """
import time, torch
model = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range({steps}):
    time.sleep({pause})
    model(torch.randn(4, 8)).sum().backward(); optimizer.step()
print("trained")
"""


def _words(steps: int, pause: float = 0) -> tuple[str, ...]:
    script = TRAINING.format(steps=steps, pause=pause)
    return (PYTHON, "-W", "ignore", "-c", script)


def _optimizer_steps(trace: bytes) -> int:
    events = json.loads(gzip.decompress(trace))["traceEvents"]
    return sum(e.get("name", "").startswith("Optimizer.step") for e in events)


def test_the_chosen_steps_arrive_as_a_trace(trimtab, online, service):
    done = trimtab(online, "run", "--job", "j", "--profile-steps", "5:8", "--", *_words(12))
    assert (done.stdout, done.returncode) == ("trained\n", 0), done.stderr
    (artefact,) = service.artefacts
    assert (artefact.kind, artefact.name) == ("profile", "rank0-step5.trace.json.gz")
    assert artefact.run == str(service.declarations[0].run_id)
    assert _optimizer_steps(artefact.body) == 3
    told = service.events("profile")[0].data
    assert told == {"rank": 0, "first_step": 5, "steps": 3, "bytes": len(artefact.body)}


def test_a_profile_offline_is_kept_and_sent_later(trimtab, environment, online, service):
    trimtab(environment, "run", "--profile-steps", "2:4", "--", *_words(6))
    assert "1 file" in trimtab(environment, "status").stdout
    replies = iter([Reply(status=503), Reply(status=429), Reply()])
    service.answer = lambda r: next(replies) if "artefacts" in r.path else Reply()
    assert trimtab(online, "sync").returncode == 0
    assert len({a.body for a in service.artefacts}) == 1
    assert len(service.artefacts) == 3
    assert "0 files" in trimtab(environment, "status").stdout


def test_a_trace_that_is_too_large_for_the_service_is_named_and_waits(trimtab, online, service):
    service.answer = lambda r: Reply(status=413 if "artefacts" in r.path else 200)
    done = trimtab(online, "run", "--profile-steps", "2:4", "--", *_words(6))
    assert done.returncode == 0
    assert "rank0-step2.trace.json.gz" in done.stderr
    status = trimtab(online, "status").stdout
    assert "1 file waiting" in status
    assert "413" in status


def test_a_script_that_profiles_itself_is_left_to_it(trimtab, online, service):
    script = _words(6)[-1].replace("for _", "own = torch.profiler.profile(); own.start()\nfor _")
    words = (PYTHON, "-W", "ignore", "-c", script + "own.stop(); print(len(own.events()) > 0)")
    done = trimtab(online, "run", "--profile-steps", "2:4", "--", *words)
    assert (done.stdout, done.returncode) == ("trained\nTrue\n", 0), done.stderr
    assert service.artefacts == []
    assert service.events("profile")[0].data["steps"] == 0


def test_a_running_training_is_profiled_when_the_service_asks(environment, service):
    """The profile leads from the first answer, after ten seconds, to the trace beside the
    training's end.
    """
    asked = {"id": "p1", "kind": "profile", "rank": 0, "steps": 3}
    service.answer = lambda r: Reply(document={"directives": [asked]})
    online = environment | {"TRIMTAB_URL": service.url, "TRIMTAB_TOKEN": TOKEN}
    command = trimtab_command("run", "--", *_words(75, pause=0.2))
    done = subprocess.run(command, env=online, capture_output=True, text=True, timeout=60)
    assert done.stdout == "trained\n"
    (artefact,) = service.artefacts
    assert _optimizer_steps(artefact.body) == 3
    answered = [e.data["outcome"] for e in service.events("directive")]
    assert answered == ["passed_on"]
