"""A recommendation with its figures and candidates, as the pages list them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from advisor.advice.launching import SCHEDULERS, launches, write_block
from webapp.advice.models import Recommendation
from webapp.advice.selectors.savings import (
    Saving,
    SavingLine,
    calibration_of,
    risk_words,
    rung_words,
    runs_gone_back,
    saving_lines,
    saving_of,
    with_savings,
)
from webapp.advice.settling import counted_until, is_over
from webapp.runs.models import Run


@dataclass(frozen=True)
class CandidateLine:
    """One machine that could run the workload. Costs are USD per run; None without a price."""

    machine: str
    size: str
    is_chosen: bool
    is_present: bool
    seconds: list[float]
    """The low, middle and high estimate."""
    usd: list[Decimal | None]
    list_price_of: str
    """The day on which its price was last confirmed, if that was too long ago."""
    why_not: str
    to_check: str
    """The thing to check of a machine that its provider's list lacks; empty if it is listed."""


@dataclass(frozen=True)
class LaunchBlock:
    """The start of a run on the recommended machines, to paste for a scheduler."""

    scheduler: str
    title: str
    text: str


@dataclass(frozen=True)
class RecommendationDetails:
    row: Recommendation
    saving: Saving
    rung: str
    """The basis of the estimate, in words."""
    risk: str
    realised: list[SavingLine]
    not_followed: list[Run]
    """The runs that went back, the newest first."""
    calibration: float | None
    """The realised saving over the promised one; None if unknown."""
    possible: list[CandidateLine]
    rejected: list[CandidateLine]
    blocks: list[LaunchBlock]
    """Text to paste for each scheduler; empty if the change starts no other machines."""

    @property
    def is_followed(self) -> bool:
        return self.row.state in Recommendation.FOLLOWED

    @property
    def was_followed_unseen(self) -> bool:
        """Return whether a run followed it that began before anybody had opened it."""
        claimed_by, seen_at = self.row.claimed_by, self.row.seen_at
        return claimed_by is not None and (seen_at is None or seen_at > claimed_by.began_at)

    @property
    def is_advised(self) -> bool:
        """Return whether the newest run gives reason for it and doesn't follow it."""
        return self.row.state == Recommendation.ACTIVE or self.row.reopened_by_id is not None

    @property
    def counted_until(self) -> datetime | None:
        """Return when the year of counting ended; None if it hasn't, or no run followed."""
        return counted_until(self.row) if is_over(self.row) else None

    @property
    def own_way(self) -> Run | None:
        """The newest run that followed it in its own way."""
        runs = [line.row.run for line in self.realised if line.row.is_own_way]
        return runs[-1] if runs else None

    @property
    def is_open(self) -> bool:
        return self.row.state in (Recommendation.ACTIVE, Recommendation.SNOOZED)


def advice(
    rows: Iterable[Recommendation], present_types: Iterable[str] = ()
) -> list[RecommendationDetails]:
    """Return the rows with their figures. `present_types` are the run's instance types."""
    return [_advice(row, set(present_types)) for row in with_savings(rows)]


def _advice(row: Recommendation, present: set[str]) -> RecommendationDetails:
    lines = [_line(candidate, row.change, present) for candidate in row.candidates]
    return RecommendationDetails(
        row=row,
        saving=saving_of(row),
        rung=rung_words(row),
        risk=risk_words(row),
        realised=saving_lines(row),
        not_followed=runs_gone_back(row),
        calibration=calibration_of(row),
        possible=[line for line in lines if not line.why_not],
        rejected=[line for line in lines if line.why_not],
        blocks=_blocks(row),
    )


def _blocks(row: Recommendation) -> list[LaunchBlock]:
    wanted = launches(row.change, row.run.configuration)
    return [
        LaunchBlock(name, title, write_block(name, wanted, row.how_to_apply))
        for name, title in SCHEDULERS.items()
        if wanted
    ]


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
        to_check=candidate.get("to_check") or "",
    )


def _size(candidate: dict[str, Any]) -> str:
    parts = [f"{candidate['vcpus']} vCPU", f"{candidate['memory_bytes'] / 2**30:.4g} GiB"]
    if candidate["gpus"]:
        parts.append(f"{candidate['gpus']} × {candidate['gpu_model']}")
    return ", ".join(parts)


def _usd(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)
