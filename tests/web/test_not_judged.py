"""Runs of whose machine something isn't known: nothing says that no other machine pays."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from trimtab.wire import Declaration, Gpu, encode_declaration, encode_segment

from advisor.__main__ import main
from tests.html import read_page
from tests.web.training import Training, upload
from webapp.accounts.models import Token
from webapp.analysis import tasks
from webapp.prices.bundled import sync_bundled

pytestmark = pytest.mark.django_db
CLAIMS = re.compile(
    r"nothing to change|no other machine pays|no machine that fits the run costs|nothing pays|"
    r"no change was found|costs clearly less",
    re.IGNORECASE,
)


@dataclass
class Machine:
    """A machine as its agent declares it, with what isn't known of it."""

    missing: str
    """The input that isn't known, and what its step names."""
    step: str
    node: dict[str, Any] = field(default_factory=dict)
    gpu: tuple[str, int] | None = None
    """Driver's name and GB."""
    minutes: float = 1
    has_memory: bool = True


A10G, H200 = ("NVIDIA A10G", 24), ("NVIDIA H200", 141)
MACHINES = {
    "no price in the region": Machine(
        "price", "--region gov-east-9", {"instance_type": "g5.xlarge", "region": "gov-east-9"},
        gpu=A10G,
    ),
    "a processor without a price there": Machine(
        "price", "Settings, Rates", {"instance_type": "c5.large", "region": "mars-1"}
    ),
    "no region": Machine("price", "region", {"instance_type": "c5.large", "region": ""}),
    "own machine": Machine("price", "Settings, Rates", {"provider": "", "instance_type": ""}),
    "own GPU": Machine(
        "price", "Settings, Rates", {"provider": "on_premises", "instance_type": ""}, gpu=H200
    ),
    "own AMD GPU": Machine(
        "price", "Settings, Rates", {"provider": "", "instance_type": "", "region": ""},
        gpu=("AMD Instinct MI300X", 192),
    ),
    "a type that nobody knows": Machine("price", "Settings, Rates", {"instance_type": "c99.huge"}),
    "cores that its cloud doesn't state": Machine(
        "fit", "Prices", {"provider": "lambda", "service": "machine", "region": "",
                          "instance_type": "gpu_1x_a10", "vcpus": 30, "memory_bytes": 200 * 2**30},
        gpu=("NVIDIA A10", 24),
    ),
    "memory that wasn't measured": Machine("fit", "trimtab run", has_memory=False),
    "another GPU than the type's": Machine(
        "fit", "Correct", {"instance_type": "g5.xlarge", "vcpus": 4, "memory_bytes": 16 * 2**30},
        gpu=H200,
    ),
    "other cores than the type's": Machine("fit", "Correct", {"vcpus": 64}),
    "chips that the agent doesn't measure": Machine(
        "fit", "Prices", {"instance_type": "trn2.48xlarge", "region": "us-east-2", "vcpus": 192,
                          "memory_bytes": 2048 * 2**30, "purchase_option": "capacity_block"},
    ),
    "too short a run": Machine("speed", "30 s", minutes=1 / 3),
}  # fmt: skip


class OnMachine(Training):
    """Works on one of the machines, and waits for nothing."""

    of: Machine

    def declaration(self) -> Declaration:
        declared = super().declaration()
        node = declared.node
        for name, value in self.of.node.items():
            setattr(node, name, value)
        node.effective_cpus = node.vcpus
        node.gpus = [Gpu(self.of.gpu[0], self.of.gpu[1] * 10**9)] if self.of.gpu else []
        if not node.instance_type:
            node.service = ""
        return declared

    def segments(self) -> list[Any]:
        segments = super().segments()
        for segment in segments:
            [steps] = segment.steps
            steps.data_wait_us = [0] * len(steps.data_wait_us or [])
        return segments


def read_everywhere(owner: Any, run: Any) -> dict[str, str]:
    """Return the texts of the run's page and report, of the API, and of what `trimtab cost`
    prints.
    """
    token = Token.make(owner.workspace, "read", [Token.READ])[1]
    headers = {"Authorization": f"Bearer {token}"}
    found = owner.client.get(f"/api/v1/runs/{run.pk}", headers=headers)
    assert found.status_code == 200
    pages = [reverse(f"dashboard:{name}", args=[run.pk]) for name in ("run", "report")]
    texts = {address: owner.page(address) for address in pages}
    plain = {a: unescape(re.sub(r"<[^>]+>|\s+", " ", text)) for a, text in texts.items()}
    cost = owner.client.get(f"/api/v1/cost?run={run.pk}", headers=headers)
    assert cost.status_code == 200
    return plain | {"api": read_page(found), "cost": read_page(cost)}


def read_offline(training: Training, folder: Path, capsys: Any) -> dict[str, str]:
    """Return what `python -m advisor analyse` prints, and its JSON."""
    (folder / "0.declaration").write_bytes(encode_declaration(training.declaration()))
    for segment in training.segments():
        (folder / f"{segment.seq}.segment").write_bytes(encode_segment(segment))
    texts = {}
    for option in ("", "--json"):
        main(["analyse", str(folder), *filter(None, [option])])
        texts[f"offline {option}"] = capsys.readouterr().out
    return texts


def unknown_inputs(document: str) -> dict[str, str]:
    """Return name -> the step that helps."""
    found = json.loads(document)
    inputs = found["inputs"] if "inputs" in found else found["checked"]["inputs"]
    return {each["name"]: each["step"] for each in inputs if not each["is_known"]}


@pytest.mark.parametrize("name", MACHINES)
def test_no_sentence_claims_that_nothing_pays(
    owner: Any, name: str, tmp_path: Path, capsys: Any
) -> None:
    sync_bundled()
    machine = MACHINES[name]
    training = OnMachine(
        "train.py",
        minutes=machine.minutes,
        gpus=1 if machine.gpu else 0,
        has_memory_bytes=machine.has_memory,
    )
    training.of = machine
    run = upload(owner.workspace, training)
    tasks.evaluate(str(run.pk))
    texts = read_everywhere(owner, run) | read_offline(training, tmp_path, capsys)
    for where, text in texts.items():
        assert not (found := CLAIMS.search(text)), (where, text[found.start() - 80 : found.end()])
    unknown = unknown_inputs(texts["api"])
    assert machine.step in unknown[machine.missing]
    assert unknown_inputs(texts["offline --json"]) == unknown
    assert any("not judged" in text.lower() for text in texts.values())
    offline = texts["offline "].partition("Recommendations")[2]
    assert "not judged: " in offline.lower()
    assert next(iter(unknown.values())) in offline


def test_a_run_on_trainium_has_its_price_and_is_told_that_there_is_no_advice(owner: Any) -> None:
    sync_bundled()
    training = OnMachine("train.py", minutes=1)
    training.of = MACHINES["chips that the agent doesn't measure"]
    run = upload(owner.workspace, training)
    tasks.evaluate(str(run.pk))
    run.refresh_from_db()
    assert run.cost_usd is not None
    texts = read_everywhere(owner, run)
    del texts["cost"]  # it has no advice
    for where, text in texts.items():
        assert "no advice for trainium2: the agent doesn't measure it" in text.lower(), where
        assert "none was seen" not in text, where


def test_a_run_of_which_everything_is_known_says_by_what(owner: Any) -> None:
    sync_bundled()
    training = OnMachine("train.py", minutes=1)
    training.of = Machine("", "")
    run = upload(owner.workspace, training)
    tasks.evaluate(str(run.pk))
    inputs = json.loads(read_everywhere(owner, run)["api"])["checked"]["inputs"]
    assert [each["name"] for each in inputs] == ["price", "fit", "speed", "availability"]
    assert all(each["is_known"] for each in inputs)
    assert "list of 2026-08-02" in inputs[-1]["found"]
