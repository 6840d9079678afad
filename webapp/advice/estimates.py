"""The estimate of a recommendation, as it is frozen and as the proof reads it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from advisor.proof.runs import PLACE, CandidateTable, Promise, PromisedSaving
from webapp.advice import evidence
from webapp.advice.models import Recommendation

SUMS = ("saving_low_usd", "saving_usd", "saving_high_usd", "monthly_saving_usd")


def document(row: Recommendation) -> dict[str, Any]:
    """Return the row's estimate of now, with the figures of its evidence; money as text."""
    run = row.run
    return {
        **{name: _text(getattr(row, name)) for name in SUMS},
        "title": row.title,
        "change": row.change,
        "candidates": row.candidates,
        "cost_usd": _text(run.cost_usd),
        "duration_seconds": run.duration.total_seconds() if run.duration else None,
    }


def is_about_place(row: Recommendation) -> bool:
    """Return whether runs follow it by settings that only `evidence.configurations` knows."""
    return not row.change.keys().isdisjoint(PLACE)


def promise(row: Recommendation) -> Promise:
    """Return the estimate for the proof. A later run may equal a row of any table that was shown:
    what it is now, and what a person saw first.
    """
    frozen = row.claimed_estimate or document(row)
    run, expired_by = row.run, row.expired_by
    known = evidence.configurations([run]) if is_about_place(row) else {}
    return Promise(
        key=row.pk,
        number=run.number,
        at=run.began_at,
        workload_key=run.summary.workload_key,
        configuration=known.get(run.pk, run.configuration),
        change=row.change,
        tables=[
            _table(each) for each in (frozen, row.seen_estimate or {}) if each.get("candidates")
        ],
        rules=row.rules,
        estimate=_estimate(frozen),
        kind=row.dedupe_key,
        followed_since=row.followed_since,
        until=(expired_by.began_at, expired_by.number) if expired_by is not None else None,
    )


def _table(shown: Mapping[str, Any]) -> CandidateTable:
    return CandidateTable(_usd(shown["cost_usd"]), shown["candidates"])


def _estimate(frozen: Mapping[str, Any]) -> PromisedSaving:
    low, mid, high = (_usd(frozen[name]) for name in SUMS[:3])
    return PromisedSaving(low, mid, high, _usd(frozen["cost_usd"]), frozen["duration_seconds"])


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else f"{usd:f}"


def _usd(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)
