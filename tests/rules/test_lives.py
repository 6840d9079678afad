"""Lives of a run's processes: when each ended, why, and what the ledger has of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.frame import NodeFrame
from rules.ledger import OF_LIVES, ledger
from rules.lives import OPEN, lives
from tests.rules import frames as f
from tests.rules.restarted import Events, ended, gpu_node, process, restore, told


def endings(*nodes: NodeFrame) -> list[str]:
    return [life.ending for life in lives(f.run(*nodes, duration=1000))]


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        ({"exit_code": 1}, "exit_code"),
        ({"exit_code": 124}, "timeout"),
        ({"exit_code": 139}, "signal"),
        ({"signal": 15}, "signal"),
        ({"signal": 24}, "timeout"),
        ({"exit_code": None}, "unknown"),
        ({"signal": 9, "oom_kills": 1, "oom_scope": "machine"}, "oom"),
        ({"exit_code": 1, "oom_kills": 1, "oom_process": "python"}, "oom"),
        ({"exit_code": 1, "oom_kills": 1, "oom_scope": "machine"}, "exit_code"),
    ],
)
def test_an_exit_code_or_signal_tells_why(data: dict[str, Any], cause: str) -> None:
    assert endings(gpu_node(events=[ended(900, **data)])) == [cause, OPEN]


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        ((890.0, "gpu_xid", {"gpu": 0, "xid": 79}), "hardware"),
        ((890.0, "gpu_xid", {"gpu": 0, "xid": 31}), "exit_code"),
        ((200.0, "gpu_xid", {"gpu": 0, "xid": 79}), "exit_code"),
        ((890.0, "metric", {"name": "train/loss", "value": "NaN"}), "nan"),
        ((890.0, "metric", {"name": "train/loss", "value": 0.3}), "exit_code"),
        ((890.0, "metric", {"name": "grad_norm", "value": "Infinity"}), "exit_code"),
        ((899.0, "stderr", {"number": 1, "text": "ValueError: loss is nan"}), "nan"),
        ((899.0, "stderr", {"number": 1, "text": "CUDA out of memory. Tried"}), "oom"),
        ((899.0, "gpu_out_of_memory", {"gpu": 0, "requested_bytes": 2**32}), "oom"),
        ((899.0, "stderr", {"number": 1, "text": "Watchdog caught collective"}), "timeout"),
        ((899.0, "stderr", {"number": 1, "text": "banana: loss of life"}), "exit_code"),
    ],
)
def test_what_was_recorded_before_the_end_tells_why(before: Any, cause: str) -> None:
    assert endings(gpu_node(events=[before, ended(900, exit_code=1)]))[0] == cause


def test_what_an_earlier_life_recorded_is_not_the_cause() -> None:
    loss = (90.0, "metric", {"name": "loss", "value": "NaN"})
    first = gpu_node(events=[loss, ended(100, exit_code=1)], held=(0, 100))
    second = gpu_node(events=[ended(900, exit_code=1)], key="n2", held=(200, 900))
    assert endings(first, second)[:2] == ["nan", "exit_code"]


def test_uncorrected_memory_errors_are_of_the_hardware() -> None:
    errors = np.where(np.arange(1000) < 880, 0.0, 1.0)
    node = gpu_node(events=[ended(900, exit_code=1)])
    series = node.samples.assign(**{"gpu0.ecc_uncorrected_errors_total": errors})
    assert endings(replace(node, samples=series))[0] == "hardware"


def test_nodes_that_end_together_are_one_failure_and_the_first_tells_why() -> None:
    one = gpu_node(events=[ended(500, exit_code=3)], held=(0, 500))
    other = gpu_node(events=[ended(530, signal=15)], key="n2", held=(0, 530))
    after = gpu_node(events=[ended(1000, "finished")], key="n3", held=(510, 1000))
    found = lives(f.run(one, other, after, duration=1000))
    assert [(life.ending, life.node) for life in found] == [("exit_code", "n1"), ("finished", "n3")]


def test_short_attempts_are_not_one_failure() -> None:
    nodes = [
        gpu_node(events=[ended(20 * n + 15, exit_code=1)], key=f"n{n}", held=(20 * n, 20 * n + 15))
        for n in range(5)
    ]
    assert endings(*nodes) == ["exit_code"] * 5 + [OPEN]


def test_a_silent_machine_ended_only_if_another_one_continues() -> None:
    silent = gpu_node(held=(0, 400))
    assert endings(silent) == [OPEN]
    assert endings(silent, gpu_node(key="n2", held=(500, 1000))) == ["silent", OPEN]


def test_the_launcher_tells_that_a_process_failed() -> None:
    events = [process(0), process(300, restarts=1), ended(1000, "finished")]
    node = gpu_node(f.steps(200), f.steps(600, start=350), events=events)
    assert endings(node) == ["unknown", "finished"]
    without = gpu_node(f.steps(200), f.steps(600, start=350), events=[process(0), process(300)])
    assert endings(without) == [OPEN], "the next command of a script"


def test_a_rule_or_person_that_stops_a_run_is_no_failure() -> None:
    assert endings(gpu_node(events=[ended(900, "failed", rule="hung")]))[0] == "stopped"
    assert endings(gpu_node(events=[ended(900, "stopped", exit_code=143)]))[0] == "stopped"


def two_restarts() -> NodeFrame:
    """Return 100 steps of which 20 are lost, then 100 of which 50 are lost, then the rest."""
    events: Events = [
        process(0),
        *told((1, 1)),
        process(150, restarts=1),
        *restore(180, 20, 80),
        process(350, restarts=2),
        *restore(380, 10, 130),
        ended(1000, "finished"),
    ]
    tables = f.steps(100), f.steps(100, start=200), f.steps(600, start=400)
    return gpu_node(*tables, events=events)


def test_lost_work_belongs_to_the_life_that_did_it_and_the_start_to_the_next() -> None:
    of_lives = {
        (each.life, each.label): each.microseconds / 1e6
        for each in ledger(f.run(two_restarts(), duration=1000)).of_lives
    }
    assert {key: value for key, value in of_lives.items() if key[1] != "initialise"} == {
        (0, "lost"): pytest.approx(20),
        (1, "restart"): pytest.approx(50),
        (1, "restore"): pytest.approx(20),
        (1, "lost"): pytest.approx(50),
        (2, "restart"): pytest.approx(50),
        (2, "restore"): pytest.approx(10),
    }
    assert of_lives[1, "initialise"] == pytest.approx(30)
    assert of_lives[2, "initialise"] == pytest.approx(40)


@given(ends=st.lists(st.integers(1, 99), unique=True, max_size=8))
@settings(max_examples=20)
def test_lives_add_up_to_the_labels(ends: list[int]) -> None:
    node = two_restarts()
    more = [(10.0 * at, "session_end", {"state": "failed"}) for at in ends]
    events = pd.DataFrame([*node.events.to_numpy().tolist(), *more], columns=node.events.columns)
    events = events.sort_values("time_seconds", kind="stable")
    found = ledger(f.run(replace(node, events=events), duration=1000))
    for label in OF_LIVES:
        whole = sum(entry.microseconds for entry in found.entries if entry.label == label)
        assert whole == sum(e.microseconds for e in found.of_lives if e.label == label)
