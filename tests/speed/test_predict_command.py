"""`python -m advisor predict`: JSON lines in, JSON lines out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.cpu_time import is_within
from tests.running_service import CHECKOUT

RUN = {"workload": "job", "batch": 64, "precision": "fp32", "gpu": "V100-SXM2-16", "gpus": 1}
PRESENT = RUN | {"throughput": 100.0}
PRICES = {"V100-SXM2-16": 3.06, "T4": 0.526, "A10G": 1.006}
TARGETS = [{"gpu": "T4", "gpus": 1}, {"gpu": "A10G", "gpus": 1}]


def _ask(*lines: dict[str, Any] | str) -> list[dict[str, Any]]:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "predict"],
        cwd=CHECKOUT,
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _query(name: Any, **changes: Any) -> dict[str, Any]:
    return {"id": name, "measured": [PRESENT], "targets": TARGETS} | changes


def test_every_line_has_its_answer():
    probe = RUN | {"gpu": "A10G", "throughput": 130.0, "probe_steps": 200, "rel_sd": 0.01}
    history = [
        {"workload": f"other{n}", "batch": None, "precision": "fp32", "gpu": gpu, "gpus": 1}
        | {"throughput": speed * (n + 1)}
        for n in range(6)
        for gpu, speed in (("V100-SXM2-16", 10.0), ("T4", 9.0))
    ]
    answers = _ask(
        {"context": "ours", "history": history, "made_up": 1},
        _query("no prices"),
        _query("probe", prices=PRICES),
        _query("measured", measured=[PRESENT, probe], prices=PRICES, round=2),
        _query("history", context_id="ours"),
        _query("null", measured=[PRESENT | {"batch": None, "surplus": [1]}], max_slower=None),
        _query("two rounds", prices=PRICES, round=2),
        _query("unknown GPU", targets=[{"gpu": "Abacus-3000"}, *TARGETS], prices=PRICES),
        _query("slice", targets=[{"gpu": "A100-40-SXM/mig3g", "gpus": 1}]),
        "{not json",
        _query("no workload", measured=[{"gpu": "T4", "throughput": "fast"}]),
        _query("no such context", context_id="theirs"),
        _query("negative", prices={"T4": -1}),
        _query("half a GPU", targets=[{"gpu": "T4", "gpus": 0.5}]),
        _query("nothing measured", measured=[]),
        _query("huge", measured=[PRESENT | {"batch": 10**400}]),
        _query("\ud800", measured=[PRESENT | {"rel_sd": 1e20}]),
        _query("last"),
    )
    by_id = {answer.get("id"): answer for answer in answers}
    assert len(answers) == 17
    assert by_id["no prices"]["advice"] == {"kind": "stay"}
    assert [speed["gpu"] for speed in by_id["no prices"]["speed"]] == ["T4", "A10G"]
    for speed in by_id["no prices"]["speed"]:
        assert 0 < speed["low"] < speed["median"] < speed["high"]
        assert speed["rung"] == "prior"
    assert by_id["probe"]["advice"]["kind"] == "probe"
    assert set(by_id["probe"]["advice"]["gpus"]) <= {"T4", "A10G"}
    assert by_id["measured"]["advice"]["kind"] == "switch"
    assert by_id["measured"]["advice"]["gpu"] == "A10G"
    assert abs(by_id["measured"]["speed"][1]["median"] / 1.3 - 1) < 0.02
    near = by_id["history"]["speed"][0]
    assert near["rung"] == "history"
    assert abs(near["median"] / 0.9 - 1) < abs(by_id["last"]["speed"][0]["median"] / 0.9 - 1)
    assert by_id["two rounds"]["advice"]["kind"] == "stay"
    assert by_id["unknown GPU"]["speed"][0]["median"] is None
    assert "Abacus-3000" in by_id["unknown GPU"]["speed"][0]["missing"]
    assert by_id["unknown GPU"]["speed"][1:] == by_id["no prices"]["speed"]
    assert by_id["slice"]["speed"][0]["median"] > 0
    wrong = {name: answer["error"]["field"] for name, answer in by_id.items() if "error" in answer}
    assert wrong == {
        None: "",
        "no workload": "measured[0].throughput",
        "no such context": "context_id",
        "negative": "prices.T4",
        "half a GPU": "targets[0].gpus",
        "nothing measured": "measured",
        "huge": "measured[0].batch",
    }
    assert by_id["last"]["speed"] == by_id["no prices"]["speed"]


def test_a_thousand_queries_take_five_seconds():
    targets = [{"gpu": gpu, "gpus": 1} for gpu in ("T4", "A10G", "L4", "A100-40-SXM", "H100-SXM")]
    before = os.times()
    answers = _ask(*(_query(n, targets=targets, prices=PRICES) for n in range(1000)))
    after = os.times()
    assert [answer["id"] for answer in answers] == list(range(1000))
    taken = after.children_user + after.children_system
    assert is_within(taken - before.children_user - before.children_system, 5)
