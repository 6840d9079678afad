"""Measures whether neighbours on the machine change what is said of a run: trainings of known
shape, first alone and then beside processes that keep more cores busy than there are.

    python -m bench.neighbours                 prints each story's findings and labels
    python -m bench.neighbours --check         exits with 1 if anything but `starved` differs, or
                                               what starvation hides: the size of the machine
    python -m bench.neighbours --only GAN compile

Labels are shares of the time in which the run wasn't starved, in percent. The machine must be
quiet: what else runs on it is a neighbour of both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.neighbour_stories import BEGIN, STORIES
from rules.starvation import HIDING_SHARE

LOAD_PER_CORE = 2
MOST_POINTS = 2.0
STARVED = "starved"
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class RunFindings:
    """The findings and labels of one run."""

    findings: frozenset[str]
    labels: dict[str, float]
    """Percent of the time in which it wasn't starved."""
    starved_pct: float


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Run processes that only compute."""
    words = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(words) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def said_of(script: str) -> RunFindings:
    """Run a script under the agent, without a service, and analyse what it recorded."""
    with tempfile.TemporaryDirectory(prefix="trimtab-neighbours-") as place:
        folder = Path(place)
        (folder / "story.py").write_text(BEGIN + script)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRIMTAB")}
        variables = kept | {
            "TRIMTAB_STATE_DIR": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "TRIMTAB_METADATA": "off",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "agent")]),
        }
        run = [sys.executable, "-m", "trimtab.cli", "run", "--", sys.executable, "story.py"]
        subprocess.run(run, cwd=folder, env=variables, check=True, capture_output=True)
        analyse = [sys.executable, "-m", "advisor", "analyse", str(folder / "state"), "--json"]
        done = subprocess.run(analyse, cwd=ROOT, env=variables, check=True, capture_output=True)
    return _said(json.loads(done.stdout))


def _said(report: dict[str, list[dict[str, str]]]) -> RunFindings:
    seconds = {line["label"]: float(line["node_seconds"]) for line in report["ledger"]}
    whole = sum(seconds.values())
    starved = seconds.pop(STARVED, 0.0)
    labels = {label: 100 * each / (whole - starved) for label, each in seconds.items()}
    fired = (each["rule"] for each in report["judgements"] if each["state"] == "fired")
    return RunFindings(frozenset(fired), labels, 100 * starved / whole)


def expected_findings(alone: RunFindings, beside: RunFindings) -> frozenset[str]:
    """Return the findings beside neighbours: what a machine's size has to be isn't judged while
    they hide how many cores the run needs."""
    is_hidden = beside.starved_pct >= 100 * HIDING_SHARE
    return alone.findings - {"cpu_oversized"} if is_hidden else alone.findings


def difference(alone: RunFindings, beside: RunFindings) -> tuple[float, str]:
    """Return the largest difference of a label in points, and its name."""
    every = {*alone.labels, *beside.labels}
    apart = {each: beside.labels.get(each, 0.0) - alone.labels.get(each, 0.0) for each in every}
    worst = max(apart, key=lambda label: abs(apart[label]))
    return apart[worst], worst


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.neighbours",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="STORY", choices=list(STORIES))
    asked = parser.parse_args()
    are_same = True
    for name in asked.only or STORIES:
        alone = said_of(STORIES[name])
        with neighbours(LOAD_PER_CORE * (os.cpu_count() or 1)):
            beside = said_of(STORIES[name])
        points, label = difference(alone, beside)
        is_same = abs(points) <= MOST_POINTS and beside.findings == expected_findings(alone, beside)
        are_same &= is_same
        _show(name, alone, beside, f"{label} {points:+.1f}", is_same)
    return 0 if are_same or not asked.check else 1


def _show(name: str, alone: RunFindings, beside: RunFindings, apart: str, is_same: bool) -> None:
    print(f"{name:<24} {'same' if is_same else 'DIFFERS':<8} {apart}", flush=True)
    for when, said in (("alone", alone), ("beside", beside)):
        labels = sorted(said.labels.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{label} {pct:.1f}" for label, pct in labels if pct >= 0.1)
        findings = ", ".join(sorted(said.findings)) or "none"
        print(f"    {when:<7} starved {said.starved_pct:4.1f} %; {shares}; findings: {findings}")


if __name__ == "__main__":
    sys.exit(main())
