"""A recommendation with its figures and candidates, as the pages list them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from webapp.advice.models import Recommendation
from webapp.advice.selectors.savings import (
    Saving,
    SavingLine,
    calibration_of,
    risk_words,
    rung_words,
    saving_lines,
    saving_of,
    with_savings,
)


@dataclass(frozen=True)
class CandidateLine:
    """One machine that could run the workload. Costs are USD per run; None: no price."""

    machine: str
    size: str
    is_chosen: bool
    is_present: bool
    seconds: list[float]
    """Low, middle, high."""
    usd: list[Decimal | None]
    list_price_of: str
    """The day on which its price was last confirmed, if that was too long ago."""
    why_not: str


@dataclass(frozen=True)
class Advice:
    row: Recommendation
    saving: Saving
    rung: str
    """What the estimate rests on, in words."""
    risk: str
    realised: list[SavingLine]
    calibration: float | None
    """Realised over promised; None: not known."""
    possible: list[CandidateLine]
    rejected: list[CandidateLine]

    @property
    def is_followed(self) -> bool:
        return self.row.state in Recommendation.FOLLOWED

    @property
    def was_followed_unseen(self) -> bool:
        """By a run that began before anybody had opened it."""
        claimed_by, seen_at = self.row.claimed_by, self.row.seen_at
        return claimed_by is not None and (seen_at is None or seen_at > claimed_by.began_at)

    @property
    def is_open(self) -> bool:
        return self.row.state in (Recommendation.ACTIVE, Recommendation.SNOOZED)


def advice(rows: Iterable[Recommendation], present_types: Iterable[str] = ()) -> list[Advice]:
    """`present_types`: the run's instance types."""
    return [_advice(row, set(present_types)) for row in with_savings(rows)]


def _advice(row: Recommendation, present: set[str]) -> Advice:
    lines = [_line(candidate, row.change, present) for candidate in row.candidates]
    return Advice(
        row=row,
        saving=saving_of(row),
        rung=rung_words(row),
        risk=risk_words(row),
        realised=saving_lines(row),
        calibration=calibration_of(row),
        possible=[line for line in lines if not line.why_not],
        rejected=[line for line in lines if line.why_not],
    )


def _line(candidate: dict[str, Any], change: dict[str, Any], present: set[str]) -> CandidateLine:
    kind, count = candidate["instance_type"], candidate["node_count"]
    return CandidateLine(
        machine=f"{count} × {kind}",
        size=_size(candidate),
        is_chosen=kind == change.get("instance_type") and not candidate["rejected_because"],
        is_present=kind in present,
        seconds=[candidate[f"time_{part}_seconds"] for part in ("low", "mid", "high")],
        usd=[_usd(candidate[f"cost_{part}_usd"]) for part in ("low", "mid", "high")],
        list_price_of=candidate.get("list_price_of") or "",
        why_not=candidate["rejected_because"],
    )


def _size(candidate: dict[str, Any]) -> str:
    parts = [f"{candidate['vcpus']} vCPU", f"{candidate['memory_bytes'] / 2**30:.4g} GiB"]
    if candidate["gpus"]:
        parts.append(f"{candidate['gpus']} × {candidate['gpu_model']}")
    return ", ".join(parts)


def _usd(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)
