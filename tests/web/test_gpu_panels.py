"""The panels of a run's GPUs: what each draws, and that what wasn't measured isn't drawn."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from trimtab.wire import Event

from tests.web import clusters
from webapp.dashboard.selectors.gpu_panels import gpu_panels
from webapp.runs.models import Node

KEYS = "sm,tensor,dram,power,clock,throttling,pcie,nvlink,torch_memory"
GIB = 2**30


def _panels(person, run, keys: str = KEYS, **query: Any) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    address = reverse("dashboard:run_charts", args=[run.pk])
    answer = person.client.get(address, {"buckets": 30, "panels": keys, **query})
    assert answer.status_code == 200
    return answer.json()["charts"]


def _first_means(panel: dict[str, Any]) -> dict[str, float]:
    return {
        line["label"]: next(value for value in line["mean"] if value is not None)
        for line in panel["lines"]
    }


def test_each_panel_draws_its_counters_in_its_unit(owner):
    run = clusters.uploaded_cluster(owner.workspace, nodes=1, gpus=1, minutes=0.5)

    found = {key: _first_means(panel) for key, panel in _panels(owner, run).items()}

    assert found["sm"] == {"GPU 0": pytest.approx(0.8 * 92)}
    assert found["tensor"] == {"GPU 0": pytest.approx(0.4 * 92)}
    assert found["dram"] == {"GPU 0": pytest.approx(46)}
    assert found["power"] == {"GPU 0 power": pytest.approx(598), "GPU 0 limit": 700}
    assert found["clock"] == {"GPU 0": 1755}
    # A tenth of a second a second.
    assert found["throttling"] == {"GPU 0 by heat": pytest.approx(10, rel=0.01)}
    assert found["pcie"] == {"GPU 0 to GPU": pytest.approx(GIB, rel=0.01)}
    assert found["nvlink"] == {"GPU 0 received": pytest.approx(40 * GIB, rel=0.01)}


def test_what_a_gpu_does_not_report_is_not_drawn(owner):
    run = clusters.uploaded_cluster(
        owner.workspace, nodes=1, gpus=1, minutes=0.5, has_counters=False
    )

    drawn = {key for key, panel in _panels(owner, run).items() if panel["lines"]}

    assert drawn == {"torch_memory"}


def test_counters_that_stay_at_0_while_the_gpu_is_busy_are_not_drawn(owner, monkeypatch):
    def answer_zero(gpu: str, ticks: list[int], busy_pct: float) -> dict[str, list[Any]]:
        return {f"{gpu}.{name}_active_pct": [0.0] * len(ticks) for name in ("sm", "tensor", "dram")}

    monkeypatch.setattr(clusters, "_counters", answer_zero)
    blind = clusters.uploaded_cluster(owner.workspace, nodes=1, gpus=1, minutes=0.5)
    idle = clusters.uploaded_cluster(
        owner.workspace, nodes=1, gpus=1, minutes=0.5, busy_pct=-5.0, machine="other"
    )

    assert [panel["lines"] for panel in _panels(owner, blind, "sm,tensor").values()] == [[], []]
    assert _first_means(_panels(owner, idle, "sm")["sm"]) == {"GPU 0": 0}


def test_the_memory_stands_beside_what_pytorch_reserved_at_most(owner):
    def reserved(at_ms: int, gib: int) -> Event:
        return Event(at_ms, "gpu_memory", {"rank": 0, "peak_reserved_bytes": gib * GIB})

    run = clusters.uploaded_cluster(
        owner.workspace,
        nodes=1,
        gpus=1,
        minutes=0.5,
        events=[reserved(5000, 4), reserved(9000, 12)],
    )

    drawn = _panels(owner, run)["torch_memory"]["lines"]
    lines = {
        line["label"]: [value and round(value / GIB) for value in line["mean"]] for line in drawn
    }
    assert set(lines["GPU 0 in use"]) - {None} == {9}
    peak = lines["GPU 0 PyTorch reserved at most"]
    assert peak == sorted(peak, key=lambda value: value or 0)
    assert set(peak) == {None, 4, 12}


def test_every_panel_says_what_it_means_in_one_sentence():
    panels = gpu_panels([Node(number=1, gpus=[{}])])

    assert ",".join(panel.key for panel in panels) == KEYS
    assert all(panel.meaning.endswith(".") and ". " not in panel.meaning for panel in panels)
    assert gpu_panels([Node(number=1, gpus=[])]) == []
