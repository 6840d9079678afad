"""Verdicts on successive runs, as the pages show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from advisor.money import display_usd
from advisor.successive.change_points import MOST_POINTS
from webapp.analysis.selectors.work import readable
from webapp.runs.models import Run

TITLES = {
    ("suspected", "worse"): "Suspected regression",
    ("suspected", "better"): "Suspected improvement",
    ("confirmed", "worse"): "Confirmed regression",
    ("confirmed", "better"): "Confirmed improvement",
    ("cleared", "worse"): "Outlier",
    ("cleared", "better"): "Outlier",
}
RUNGS = {"baseline": "Baseline recorded", "caveat": "Too few runs"}
AS_EXPECTED = "As expected"
MOST_NOTABLE = 5


@dataclass(frozen=True)
class Verdict:
    """The verdict on one run against the comparable ones before it. Ratios: 0.1 is 10 %."""

    number: int
    status: str
    """`ok`, `suspected`, `confirmed` or `cleared`."""
    rung: str
    direction: str
    """`worse`, `better` or `same`."""
    since: int | None
    unit: str
    baseline_runs: int
    change: float | None
    expected: str
    """The expected cost of the work; empty: the history is too short."""
    detects: float | None
    """The smallest change that this history can detect."""
    sentence: str
    causes: list[str]

    @property
    def title(self) -> str:
        return RUNGS.get(self.rung) or TITLES.get((self.status, self.direction), AS_EXPECTED)

    @property
    def mark(self) -> str:
        """The shape and colour of its point in charts."""
        if self.rung in RUNGS:
            return self.rung
        if self.status in ("suspected", "confirmed"):
            return f"{self.status}-{self.direction}"
        return self.status

    @property
    def is_notable(self) -> bool:
        return self.status in ("suspected", "confirmed")

    @property
    def tone(self) -> str:
        """The style of its notice."""
        if not self.is_notable:
            return "plain"
        return "finding" if self.direction == "worse" else "good"


def verdict_of(run: Run) -> Verdict | None:
    """None: it wasn't compared (it is running, failed, excluded, or has no price)."""
    stored = run.summary.verdict
    if stored is None:
        return None
    return Verdict(
        number=run.number,
        status=stored.status,
        rung=stored.rung,
        direction=stored.direction,
        since=stored.since,
        unit=stored.unit.removesuffix("s"),
        baseline_runs=stored.baseline_runs,
        change=stored.change,
        expected=_expected(stored.unit, stored.low_usd, stored.high_usd),
        detects=stored.detects,
        sentence=stored.sentence,
        causes=stored.causes,
    )


def _expected(unit: str, low_usd: float | None, high_usd: float | None) -> str:
    if low_usd is None or high_usd is None:
        return ""
    amount = readable(unit, low_usd)
    low, high = (display_usd(Decimal(repr(usd)) * amount.amount) for usd in (low_usd, high_usd))
    return f"{low} to {high} per {amount}"


@dataclass(frozen=True)
class VerdictHistory:
    """The verdicts on a job's latest runs, oldest first; never empty."""

    judged: list[tuple[Run, Verdict]]

    @property
    def last(self) -> Verdict:
        return self.judged[-1][1]

    @property
    def notable(self) -> list[tuple[Run, Verdict]]:
        """The changes, newest first."""
        return [each for each in reversed(self.judged) if each[1].is_notable][:MOST_NOTABLE]


def verdict_history(runs: Iterable[Run]) -> VerdictHistory | None:
    """The latest `MOST_POINTS` of the ordered runs; None: none of them was compared."""
    verdicts = ((run, verdict_of(run)) for run in list(runs)[-MOST_POINTS:])
    judged = [(run, verdict) for run, verdict in verdicts if verdict is not None]
    return VerdictHistory(judged) if judged else None
