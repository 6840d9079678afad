"""Statistics of a report that rules measured: utilisation by node, and the time of the loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rules.rule import Numbers
from webapp.dashboard.report.drawing import span
from webapp.dashboard.selectors.judgements import RuleLine
from webapp.runs.models import Node, Run
from webapp.templatetags import shown

WIDTH = 1000
MUCH_BETWEEN = 0.25
"""The share of the loop above which time between steps is remarked upon, as in SageMaker."""
USAGE, FRAMEWORK = "overall_system_usage", "overall_framework_metrics"
QUANTITIES = (
    ("CPU", "cpu_pct"),
    ("CPU memory", "cpu_memory_pct"),
    ("GPU", "gpu_pct"),
    ("GPU memory", "gpu_memory_pct"),
    ("I/O wait", "io_wait_pct"),
    ("Network", "network_bytes_per_second"),
)
STATISTICS = ("max", "p99", "p95", "p90", "p50", "min")
PHASES = {"train": "Training steps", "evaluate": "Evaluation steps", "others": "Between steps"}
JOB = {
    "initialisation": "Initialisation",
    "loop": "Training loop",
    "finalisation": "Finalisation",
}


@dataclass(frozen=True)
class UsageRow:
    """Quantity of one node. `values` are as in `STATISTICS`; None if unknown."""

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
        """Return least, median, 95th percentile and most, of percentages that are all known."""
        by_name = dict(zip(STATISTICS, self.values, strict=True))
        known = [by_name[name] for name in ("min", "p50", "p95", "max")]
        if self.unit != "%" or None in known:
            return None
        least, p50, p95, most = (min(value or 0.0, 100.0) for value in known)
        return least, p50, p95, most

    @property
    def bars(self) -> list[tuple[str, float, float]]:
        """Class, start and width of the parts of its box plot, in percent."""
        if self.box is None:
            return []
        least, p50, p95, most = self.box
        return [("range", *span(least, most)), ("middle", *span(p50, p95))]


@dataclass(frozen=True)
class BarPart:
    """Part of a time. `x` and `width` are in a bar that is WIDTH wide."""

    name: str
    seconds: float
    share: float
    x: float
    width: float
    colour: int


@dataclass(frozen=True)
class JobTime:
    """Time of the job and of its loop by part; both are empty without steps."""

    job: list[BarPart]
    loop: list[BarPart]
    words: str
    """The rule's sentence, which says if much of the loop is between steps."""
    loop_started_at: datetime | None = None
    loop_ended_at: datetime | None = None
    begins_long: bool = False
    """True if initialisation took longer than the loop."""
    others_share: float | None = None
    """The share of the loop between steps; None if unknown."""

    @property
    def is_much_between(self) -> bool:
        return self.others_share is not None and self.others_share > MUCH_BETWEEN

    @property
    def loop_times(self) -> tuple[datetime, datetime] | None:
        start, end = self.loop_started_at, self.loop_ended_at
        return None if start is None or end is None or end <= start else (start, end)


def usage_rows(judged: Iterable[RuleLine], nodes: Sequence[Node]) -> list[UsageRow]:
    """Return a row for each node and quantity, measured or not; empty before the first analysis."""
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


def node_words(
    rows: Iterable[UsageRow], traffic: Mapping[str, Mapping[str, float]], nodes: Sequence[Node]
) -> list[tuple[str, str]]:
    """Return name and sentence of each node of which something is known."""
    p95 = {
        (row.node, row.quantity): row.values[STATISTICS.index("p95")]
        for row in rows
        if row.unit == "%"
    }
    found = []
    for node in nodes:
        known = [(title, p95.get((str(node), title))) for title, _ in QUANTITIES]
        words = [f"{title} {shown.percent(pct)}" for title, pct in known if pct is not None]
        said = [f"p95 of {', '.join(words)}"] if words else []
        ways = traffic.get(node.key, {}).items()
        said += [f"{shown.binary_bytes(amount)} {way}" for way, amount in ways]
        if said:
            found.append((str(node), f"{'; '.join(said)}."))
    return found


def usage_words(judged: Iterable[RuleLine]) -> str:
    """Return the rule's sentence: how well cores and GPUs were used."""
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
        times = {"began": begin, "ended": end}
    loop = parts(_seconds(numbers, PHASES), PHASES)
    others = numbers.get("others_pct")
    return JobTime(
        parts(job, JOB),
        loop,
        line.row.summary,
        times.get("began"),
        times.get("ended"),
        job.get("initialisation", 0.0) > job.get("loop", 0.0),
        None if others is None else others / 100,
    )


def parts(seconds: dict[str, float], titles: dict[str, str]) -> list[BarPart]:
    whole, passed, found = sum(seconds.values()), 0.0, []
    for place, (name, value) in enumerate(seconds.items()):
        share = value / whole if whole else 0.0
        x, width = round(passed * WIDTH, 1), round(share * WIDTH, 1)
        found.append(BarPart(titles[name], value, share, x, width, place % 6 + 1))
        passed += share
    return found


def _seconds(numbers: Numbers, titles: Iterable[str]) -> dict[str, float]:
    known = {name: numbers.get(f"{name}_seconds") for name in titles}
    return {name: value for name, value in known.items() if value is not None}


def _line(judged: Iterable[RuleLine], rule: str) -> RuleLine | None:
    return next((line for line in judged if line.row.rule == rule), None)
