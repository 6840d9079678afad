"""Tables of what rules about GPUs and bottlenecks measured during the training loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from webapp.dashboard.report.during import OperatorsDuring
from webapp.dashboard.report.figures import PHASES, BarPart, parts
from webapp.dashboard.report.rules import RuleReport

UTILISATION, MEMORY, LOADER = "low_gpu_utilization", "gpu_memory_increase", "dataloader"
STEPS, BALANCE, BATCH = "step_outlier", "load_balancing", "batch_size"
START = ("max_initialization_time", "startup_breakdown")
BOTTLENECKS = {
    "cpu_bottleneck": ("CPU", "cores", "cpu_threshold"),
    "io_bottleneck": ("I/O", "I/O wait", "io_threshold"),
}
"""Rule -> what it is about, what was above a threshold, and the name of that."""
OTHERS = "others"
Phases = Sequence[tuple[float, float, str]]


@dataclass(frozen=True)
class GpuWindows:
    """A GPU's percentiles, the medians over windows, and when they were low or fluctuating."""

    gpu: str
    p95: float | None
    p5: float | None
    whole_p99: float | None
    windows: int


@dataclass(frozen=True)
class MemoryRise:
    """Increase of a GPU's memory in use, in points of its size, from and to when, in seconds."""

    gpu: str
    points: float
    last_pct: float | None
    steadiness: float | None
    start: float | None
    end: float | None


@dataclass(frozen=True)
class Loaders:
    """Data loaders of a node; None if not recorded."""

    node: str
    workers: float | None
    cores: float | None
    loaders: float | None
    pinned: float | None
    prefetch: float | None


@dataclass(frozen=True)
class Bottleneck:
    """Bottleneck. `parts` say where the time of work went; `phases` are those of the time of the
    bottleneck; `during` are the operators of that time, None if there was no bottleneck.
    """

    rule: RuleReport
    what: str
    parts: list[BarPart]
    phases: list[BarPart]
    during: OperatorsDuring | None


@dataclass(frozen=True)
class LoopAnalysis:
    """Analysis of the training loop. `rules` are those of the report, by their ids."""

    rules: Mapping[str, RuleReport]
    phases: Phases
    """The phases of the loop: start, end and name, in seconds."""
    during: Mapping[str, OperatorsDuring]
    """Rule -> the operators in the stretches that it found."""

    @property
    def start_rules(self) -> list[RuleReport]:
        return [self.rules[name] for name in START if name in self.rules]

    @property
    def steps(self) -> RuleReport | None:
        return self.rules.get(STEPS)

    @property
    def utilisation(self) -> RuleReport | None:
        return self.rules.get(UTILISATION)

    @property
    def balance(self) -> RuleReport | None:
        return self.rules.get(BALANCE)

    @property
    def batch(self) -> RuleReport | None:
        return self.rules.get(BATCH)

    @property
    def memory(self) -> RuleReport | None:
        return self.rules.get(MEMORY)

    @property
    def loader(self) -> RuleReport | None:
        return self.rules.get(LOADER)

    @property
    def gpus(self) -> list[GpuWindows]:
        rule = self.utilisation
        if rule is None:
            return []
        p95, p5, p99 = _by_entity(rule, "p95_pct", "p5_pct", "whole_run_p99_pct")
        where = [str(window[2]) for window in rule.line.windows]
        return [
            GpuWindows(rule.name_entity(e), p95.get(e), p5.get(e), p99.get(e), where.count(e))
            for e in sorted(p99)
        ]

    @property
    def rises(self) -> list[MemoryRise]:
        rule = self.memory
        if rule is None:
            return []
        points, last, steady = _by_entity(rule, "rise_points", "last_pct", "steadiness")
        spans = {str(where): (start, end) for start, end, where in rule.line.windows}
        return [
            MemoryRise(rule.name_entity(e), rise, last.get(e), steady.get(e), *_ends(spans.get(e)))
            for e, rise in sorted(points.items())
        ]

    @property
    def loaders(self) -> list[Loaders]:
        rule = self.rules.get(LOADER)
        if rule is None:
            return []
        names = ("workers", "cores", "loaders_count", "pinned_loaders_count", "prefetch_count")
        found = _by_entity(rule, *names)
        nodes = sorted({node for each in found for node in each})
        return [
            Loaders(rule.name_entity(node), *(each.get(node) for each in found)) for node in nodes
        ]

    @property
    def bottlenecks(self) -> list[Bottleneck]:
        return list(self._bottlenecks())

    def _bottlenecks(self) -> Iterator[Bottleneck]:
        for name, (what, load, threshold) in BOTTLENECKS.items():
            rule = self._judged(name)
            found = [] if rule is None else _work(rule, load, threshold)
            if rule is not None and found:
                phases = _by_phase(rule.line.windows, self.phases)
                yield Bottleneck(rule, what, found, phases, self.during.get(name))

    def _judged(self, name: str) -> RuleReport | None:
        rule = self.rules.get(name)
        return rule if rule is not None and rule.is_judged else None


def loop_analysis(
    rules: Iterable[RuleReport], phases: Phases, during: Mapping[str, OperatorsDuring]
) -> LoopAnalysis:
    return LoopAnalysis({rule.line.row.rule: rule for rule in rules}, phases, during)


def _by_entity(rule: RuleReport, *names: str) -> tuple[dict[str, float], ...]:
    return tuple(rule.numbers.by_entity(name) for name in names)


def _ends(span: tuple[object, object] | None) -> tuple[float | None, float | None]:
    return (None, None) if span is None else (float(str(span[0])), float(str(span[1])))


def _work(rule: RuleReport, load: str, threshold: str) -> list[BarPart]:
    """Return the time of work by what GPUs and host did; empty if unknown."""
    of, values = rule.numbers.get, rule.line.row.values
    seen, low, stuck = (of(f"{name}_seconds") for name in ("seen", "low_gpu", "bottleneck"))
    if not seen or low is None or stuck is None:
        return []
    gpu, host = (f"{values.get(name, 0.0):g} %" for name in ("gpu_threshold", threshold))
    titles = {
        "busy": f"GPUs at {gpu} or above",
        "stuck": f"GPUs below {gpu}, {load} above {host}",
        "low": f"GPUs below {gpu} otherwise",
    }
    seconds = {"busy": max(seen - low, 0.0), "stuck": stuck, "low": max(low - stuck, 0.0)}
    return parts(seconds, titles)


def _by_phase(windows: Iterable[Sequence[object]], phases: Phases) -> list[BarPart]:
    """Return the time of these windows in each phase; what lies in none of them is between
    steps.
    """
    seconds = dict.fromkeys(PHASES, 0.0)
    for window in windows:
        start, end = float(str(window[0])), float(str(window[1]))
        known = 0.0
        for begins, ends, name in phases:
            inside = max(min(end, ends) - max(start, begins), 0.0)
            if name in seconds and inside:
                seconds[name] += inside
                known += inside
        seconds[OTHERS] += max(end - start - known, 0.0)
    return parts(seconds, PHASES) if sum(seconds.values()) else []
