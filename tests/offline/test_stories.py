"""Real processes with a known truth, measured by the real agent and analysed without a service.

Each script says itself how long its parts took; what is found may differ by 2 %.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.offline.folders import ROOT, document

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TOLERANCE = 0.02
Report = dict[str, Any]


@pytest.fixture
def measured(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Runs a script under `trimtab run`; the report, and what the script wrote to truth.json."""

    def run(script: str, *stated: str) -> tuple[Report, dict[str, float]]:
        (tmp_path / "story.py").write_text(script)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TRIMTAB")}
        variables = {
            "TRIMTAB_STATE_DIR": str(tmp_path / "state"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "TRIMTAB_METADATA": "off",
            "PYTHONPATH": str(ROOT / "agent"),
        }
        words = [sys.executable, "-m", "trimtab.cli", "run", "--", sys.executable, "story.py"]
        subprocess.run(words, cwd=tmp_path, env=kept | variables, check=True, timeout=600)
        truth = tmp_path / "truth.json"
        told = json.loads(truth.read_text()) if truth.exists() else {}
        return document(tmp_path / "state", *stated), told

    return run


@contextmanager
def busy_neighbours() -> Iterator[None]:
    """Run a process on each core that only computes."""
    words = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(words) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def share(report: Report, label: str) -> float:
    """Return the label's share of the run's time."""
    lines = {line["label"]: line["node_seconds"] for line in report["ledger"]}
    return float(lines.get(label, 0.0) / sum(lines.values()))


def fired(report: Report) -> dict[str, Report]:
    return {each["rule"]: each for each in report["judgements"] if each["state"] == "fired"}


def test_a_loop_that_sleeps_on_a_busy_machine_is_not_effective(measured) -> None:
    with busy_neighbours():
        report, _ = measured("import time\nfor _ in range(120): time.sleep(0.5)\n")
    assert share(report, "effective") <= TOLERANCE
    assert share(report, "unused_cores") >= 0.9


def test_a_leak_is_found_within_three_minutes_at_its_rate(measured) -> None:
    report, truth = measured(
        "import json, time\n"
        "kept, began = [], time.monotonic()\n"
        "while time.monotonic() - began < 180:\n"
        "    kept.append(b'x' * 2_000_000)\n"
        "    time.sleep(max(0, began + 0.2 * len(kept) - time.monotonic()))\n"
        "rate = 2e6 * len(kept) / 2**20 / (time.monotonic() - began)\n"
        "json.dump({'mib_per_second': rate}, open('truth.json', 'w'))\n"
    )
    summary = fired(report)["host_memory_leak"]["summary"]
    told = re.search(r"([\d.]+) MiB/s", summary)
    assert told is not None, summary
    assert float(told[1]) == pytest.approx(truth["mib_per_second"], rel=TOLERANCE), summary


STRAGGLER = """
import json, multiprocessing, os, time
import trimtab

def rank(number, barrier):
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(number), "2"
    own = 0.0
    for _ in range(150):
        began = time.perf_counter()
        time.sleep(0.26 if number else 0.2)
        own += time.perf_counter() - began
        with trimtab.phase("communication"):
            barrier.wait()
        trimtab.step()
    json.dump(own / 150, open(f"own{number}.json", "w"))

barrier = multiprocessing.get_context("spawn").Barrier(2)
if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    ranks = [spawn.Process(target=rank, args=(number, barrier)) for number in range(2)]
    for each in ranks: each.start()
    for each in ranks: each.join()
    fast, slow = (json.load(open(f"own{number}.json")) for number in range(2))
    json.dump({"late_pct": 100 * (slow - fast) / 2 / slow}, open("truth.json", "w"))
"""


def test_the_rank_that_is_late_is_named_with_its_share(measured) -> None:
    report, truth = measured(STRAGGLER)
    summary = fired(report)["stragglers"]["summary"]
    told = re.search(r"rank1, is late by ([\d.]+) %", summary)
    assert told is not None, summary
    # Of two ranks the median is between them.
    assert float(told[1]) == pytest.approx(truth["late_pct"], abs=100 * TOLERANCE), summary


def test_a_machine_whose_gpus_were_not_seen_is_not_advised_to_do_without(measured) -> None:
    stated = ("--provider", "aws", "--instance-type", "g5.xlarge", "--region", "us-east-1")
    script = "import time\nend = time.time() + 130\nwhile time.time() < end: sum(range(10_000))\n"
    report, _ = measured(script, *stated)
    assert "gpus_not_measured" in fired(report)
    assert [each["kind"] for each in report["recommendations"]] == []
