"""Statistics of a report that rules measured: utilisation by node, and the time of the loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rules.rule import Numbers
from webapp.dashboard.selectors.judgements import RuleLine
from webapp.runs.models import Node, Run
from webapp.templatetags import shown

WIDTH = 1000
USAGE, FRAMEWORK = "overall_system_usage", "overall_framework_metrics"
QUANTITIES = (
    ("CPU", "cpu_pct"),
    ("CPU memory", "cpu_memory_pct"),
    ("GPU", "gpu_pct"),
    ("GPU memory", "gpu_memory_pct"),
    ("I/O wait", "io_wait_pct"),
    ("Network", "network_bytes_per_second"),
)
STATISTICS = ("max", "p99", "p95", "p50", "min")
PHASES = {"train": "Training steps", "evaluate": "Evaluation steps", "others": "Between steps"}
JOB = {
    "initialisation": "Initialisation",
    "loop": "Training loop",
    "finalisation": "Finalisation",
}


@dataclass(frozen=True)
class UsageRow:
    """One quantity of one node. `values`: as in `STATISTICS`, None: not known."""

    node: str
    quantity: str
    unit: str
    values: list[float | None]

    @property
    def cells(self) -> list[str]:
        """The values in words."""
        write = shown.binary_bytes if self.unit == "bytes/s" else shown.number
        return [write(value) for value in self.values]

    @property
    def is_measured(self) -> bool:
        return any(value is not None for value in self.values)

    @property
    def box(self) -> tuple[float, float, float, float] | None:
        """Least, median, 95th percentile and most, of percentages that are all known."""
        if self.unit != "%" or None in self.values:
            return None
        most, _, p95, p50, least = (min(value or 0.0, 100.0) for value in self.values)
        return least, p50, p95, most

    @property
    def bars(self) -> list[tuple[str, float, float]]:
        """Class, start and width of the parts of its box plot, in percent."""
        if self.box is None:
            return []
        least, p50, p95, most = self.box
        spans = (("range", least, most), ("middle", p50, p95))
        return [(name, low, max(high - low, 0.8)) for name, low, high in spans]


@dataclass(frozen=True)
class Part:
    """A part of a time. `x`, `width`: in a bar that is WIDTH wide."""

    name: str
    seconds: float
    share: float
    x: float
    width: float
    colour: int


@dataclass(frozen=True)
class JobTime:
    """Where the time of the job and of its loop went; both are empty without steps."""

    job: list[Part]
    loop: list[Part]
    words: str
    """The rule's sentence, which says if much of the loop is between steps."""
    loop_started_at: datetime | None = None
    loop_ended_at: datetime | None = None


def usage_rows(judged: Iterable[RuleLine], nodes: Sequence[Node]) -> list[UsageRow]:
    """A row for each node and quantity, measured or not; empty before the first analysis."""
    line = _line(judged, USAGE)
    if line is None:
        return []
    numbers = Numbers.from_document(line.row.numbers)
    of = {name: {s: numbers.by_entity(f"{name}_{s}") for s in STATISTICS} for _, name in QUANTITIES}
    return [
        UsageRow(
            str(node),
            title,
            "bytes/s" if name.startswith("network") else "%",
            [of[name][statistic].get(node.key) for statistic in STATISTICS],
        )
        for node in nodes
        for title, name in QUANTITIES
        if node.gpus or not name.startswith("gpu")
    ]


def usage_words(judged: Iterable[RuleLine]) -> str:
    """The rule's sentence: how well cores and GPUs were used."""
    line = _line(judged, USAGE)
    return line.row.summary if line else ""


def job_time(run: Run, judged: Iterable[RuleLine]) -> JobTime:
    line = _line(judged, FRAMEWORK)
    if line is None:
        return JobTime([], [], "")
    numbers = Numbers.from_document(line.row.numbers)
    job = _seconds(numbers, JOB)
    times: dict[str, datetime | None] = {}
    if run.started_at is not None and "loop" in job:
        begin = run.started_at + timedelta(seconds=job.get("initialisation", 0.0))
        end = begin + timedelta(seconds=job["loop"])
        times = {"loop_started_at": begin, "loop_ended_at": end}
    loop = parts(_seconds(numbers, PHASES), PHASES)
    return JobTime(parts(job, JOB), loop, line.row.summary, **times)


def parts(seconds: dict[str, float], titles: dict[str, str]) -> list[Part]:
    whole, passed, found = sum(seconds.values()), 0.0, []
    for place, (name, value) in enumerate(seconds.items()):
        share = value / whole if whole else 0.0
        x, width = round(passed * WIDTH, 1), round(share * WIDTH, 1)
        found.append(Part(titles[name], value, share, x, width, place % 6 + 1))
        passed += share
    return found


def _seconds(numbers: Numbers, titles: Iterable[str]) -> dict[str, float]:
    known = {name: numbers.known(f"{name}_seconds") for name in titles}
    return {name: value for name, value in known.items() if value is not None}


def _line(judged: Iterable[RuleLine], rule: str) -> RuleLine | None:
    return next((line for line in judged if line.row.rule == rule), None)
