"""Verdicts on successive runs, as the pages show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from advisor.durations import display_seconds
from webapp.analysis.selectors.work import readable_seconds
from webapp.runs.models import Run

TITLES = {
    ("suspected", "worse"): "Suspected regression",
    ("suspected", "better"): "Suspected improvement",
    ("confirmed", "worse"): "Confirmed regression",
    ("confirmed", "better"): "Confirmed improvement",
    ("cleared", "worse"): "Outlier",
    ("cleared", "better"): "Outlier",
    ("open", "worse"): "Regression open",
}
RUNGS = {"baseline": "Baseline recorded", "caveat": "Too few runs"}
AS_EXPECTED = "As expected"
MOST_NOTABLE = 5
MOST_SHOWN = 60


@dataclass(frozen=True)
class RunVerdict:
    """The verdict on one run against the comparable ones before it. Ratios: 0.1 is 10 %."""

    number: int
    status: str
    """`ok`, `suspected`, `confirmed`, `open` or `cleared`."""
    rung: str
    direction: str
    """`worse`, `better` or `same`."""
    since: int | None
    unit: str
    baseline_runs: int
    change: float | None
    expected: str
    """The expected machine time of the work; empty if the history is too short."""
    detects: float | None
    """The smallest change that this history can detect."""
    sentence: str
    causes: list[str]
    beside: list[str]
    """The other changes of the cost: price, share of the machine, start-up, amount of data."""
    noise: str
    """The run-to-run variation and where it is known from; only of the newest run."""
    machines: list[str]
    regression_since: int | None
    ended_since: int | None

    @property
    def title(self) -> str:
        return RUNGS.get(self.rung) or TITLES.get((self.status, self.direction), AS_EXPECTED)

    @property
    def mark(self) -> str:
        """The shape and colour of its point in charts."""
        if self.rung in RUNGS:
            return self.rung
        if self.status in ("suspected", "confirmed", "open") and self.direction != "same":
            return f"{self.status}-{self.direction}"
        return self.status

    @property
    def is_notable(self) -> bool:
        return self.status in ("suspected", "confirmed")

    @property
    def is_worse(self) -> bool:
        return self.direction == "worse" and self.status in ("suspected", "confirmed", "open")

    @property
    def tone(self) -> str:
        """The style of its notice."""
        if self.is_worse:
            return "finding"
        return "good" if self.is_notable else "plain"


def verdict_of(run: Run) -> RunVerdict | None:
    """Return the verdict; None if the run wasn't compared (it is running, failed, excluded, or has
    no price).
    """
    stored = run.summary.verdict
    if stored is None:
        return None
    return RunVerdict(
        number=run.number,
        status=stored.status,
        rung=stored.rung,
        direction=stored.direction,
        since=stored.since,
        unit=stored.unit.removesuffix("s"),
        baseline_runs=stored.baseline_runs,
        change=stored.change,
        expected=_expected(stored.unit, stored.low_seconds, stored.high_seconds),
        detects=stored.detects,
        sentence=stored.sentence,
        causes=stored.causes,
        beside=stored.beside,
        noise=stored.noise_words,
        machines=stored.machines,
        regression_since=stored.regression_since,
        ended_since=stored.ended_since,
    )


def _expected(unit: str, low_seconds: float | None, high_seconds: float | None) -> str:
    if low_seconds is None or high_seconds is None:
        return ""
    amount = readable_seconds(unit, low_seconds)
    low, high = (display_seconds(s * amount.amount) for s in (low_seconds, high_seconds))
    return f"{low} to {high} per {amount}"


@dataclass(frozen=True)
class VerdictHistory:
    """The verdicts on a job's latest runs, oldest first; never empty."""

    judged: list[tuple[Run, RunVerdict]]

    @property
    def last(self) -> RunVerdict:
        return self.judged[-1][1]

    @property
    def notable(self) -> list[tuple[Run, RunVerdict]]:
        """The changes, newest first."""
        return [each for each in reversed(self.judged) if each[1].is_notable][:MOST_NOTABLE]


def verdict_history(runs: Iterable[Run]) -> VerdictHistory | None:
    """Return the latest `MOST_SHOWN` of the ordered runs, or None if none of them was compared."""
    verdicts = ((run, verdict_of(run)) for run in list(runs)[-MOST_SHOWN:])
    judged = [(run, verdict) for run, verdict in verdicts if verdict is not None]
    return VerdictHistory(judged) if judged else None
