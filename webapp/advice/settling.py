"""Derives the states and realised savings of a job's recommendations from its runs.

They are derived again whenever runs come, go, move, or are judged or priced again, so no event is
counted twice and none is missed. What a person decided stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from advisor.comparison.job_metrics import from_document
from advisor.proof.ledger import COUNTED
from advisor.proof.proving import CLAIMED, Proof, prove
from advisor.proof.saving import RunSaving
from webapp.advice import estimates, evidence
from webapp.advice.models import RealisedSaving, Recommendation
from webapp.analysis.successive import noise_prior
from webapp.runs.models import Job, Run

RECENTLY = timedelta(days=30)
"""The time for which an expired recommendation may still turn out to have been followed."""
_SAVING_FIELDS = [
    field.name
    for field in RealisedSaving._meta.concrete_fields
    if field.name not in ("id", "recommendation", "run")
]
UNCLAIMED: Mapping[str, Any] = {
    "claimed_by": None,
    "claimed_estimate": None,
    "claimed_candidate": None,
    "proven_by": None,
    "realised_usd": None,
    "realised_low_usd": None,
    "realised_high_usd": None,
    "realised_runs": 0,
    "reopened_by": None,
}


def settle(job: Job, *, is_whole: bool = False, **_: Any) -> None:
    """Write what the job's runs tell of its recommendations. Call in a transaction that has the
    job locked.

    Args:
        is_whole: also of those of which no new run counts.
    """
    rows = list(_open_to_proof(job))
    if not is_whole:
        rows = _still_counted(rows)
    if not rows:
        return
    runs = evidence.runs_since(job, min(row.run.began_at for row in rows))
    if len(runs) == evidence.MOST_RUNS:
        rows = _given_since(runs[0].began_at, rows)
    rules = {rule for row in rows for rule in row.rules}
    proofs = prove(
        [estimates.promise(row) for row in rows],
        evidence.evidence_runs(runs, rules, any(map(estimates.is_about_place, rows))),
        evidence.Prices(job),
        noise_prior.prior_of(runs) if runs else None,
        from_document(job.metrics),
    )
    numbered = {run.number: run for run in runs}
    gone_back = _gone_back(rows)
    for row in rows:
        proof = proofs.get(row.pk)
        _write(row, proof, numbered)
        fresh = {numbered[number].pk for number in proof.gone_back} if proof else set()
        if fresh != gone_back[row.pk]:
            row.not_followed_by.set(run for run in runs if run.pk in fresh)


def _still_counted(rows: Sequence[Recommendation]) -> list[Recommendation]:
    """Return those that new runs count for, and of the others each that was first followed after
    the evidence of one of these: what it saved would be counted for that one, too."""
    counted = [row for row in rows if not is_over(row)]
    since = min((row.run.began_at for row in counted), default=None)
    over = [
        (row.claimed_by.began_at, row.pk, row) for row in rows if row.claimed_by and is_over(row)
    ]
    for followed_at, _, row in sorted(over, reverse=True):
        if since is None or followed_at <= since:
            break
        counted.append(row)
        since = min(since, row.run.began_at)
    return counted


def _given_since(first: datetime, rows: Sequence[Recommendation]) -> list[Recommendation]:
    """Return those of whose evidence, and of all that was followed after it, the runs are known.
    The others stay as they were proven."""
    for row in sorted(rows, key=lambda row: row.run.began_at):
        if row.claimed_by is not None and row.run.began_at < first:
            first = max(first, row.claimed_by.began_at)
    return [row for row in rows if row.run.began_at >= first]


def _gone_back(rows: Sequence[Recommendation]) -> Mapping[int, set[UUID]]:
    """Return the runs that are stored as having gone back, by recommendation."""
    found: dict[int, set[UUID]] = defaultdict(set)
    stored = Recommendation.not_followed_by.through.objects.filter(recommendation__in=rows)
    for row_id, run_id in stored.values_list("recommendation_id", "run_id"):
        found[row_id].add(run_id)
    return found


def is_over(row: Recommendation) -> bool:
    """Return whether it was first followed more than a year ago."""
    until = counted_until(row)
    return until is not None and until < timezone.now()


def counted_until(row: Recommendation) -> datetime | None:
    """Return until when runs that follow it count, or None if no run has followed it."""
    return row.claimed_by.began_at + COUNTED if row.claimed_by is not None else None


def _open_to_proof(job: Job) -> QuerySet[Recommendation]:
    """Return those that runs may follow, or have followed. Provisional advice may still change, and
    advice that a person dismissed is left alone."""
    state = Recommendation
    expired = Q(state=state.EXPIRED, changed_at__gte=timezone.now() - RECENTLY)
    # One that ended with its own evidence was never there for a later run to follow.
    expired &= ~Q(expired_by=F("run"))
    wanted = Q(state__in=(state.ACTIVE, state.SNOOZED, *state.FOLLOWED)) | expired
    rows = Recommendation.objects.filter(wanted, job=job, is_provisional=False)
    return rows.select_related("run", "claimed_by", "expired_by").order_by("pk")


def _write(row: Recommendation, proof: Proof | None, runs: Mapping[int, Run]) -> None:
    before = {name: getattr(row, name) for name in ("state", "state_reason", *UNCLAIMED)}
    if proof is not None:
        _set(row, _found(row, proof, runs))
    elif row.followed_since is not None:
        _set(row, {**UNCLAIMED, "state": CLAIMED, "state_reason": "No run since then is complete."})
    elif row.state in Recommendation.FOLLOWED:
        _set(row, {**UNCLAIMED, "state": _state_unfollowed(row), "state_reason": ""})
    after = {name: getattr(row, name) for name in before}
    if after["state"] != before["state"]:
        row.changed_at = timezone.now()
    if after != before:
        row.save(update_fields=[*before, "changed_at"])
    _write_savings(row, proof.savings if proof else (), runs)


def _set(row: Recommendation, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)


def _found(row: Recommendation, proof: Proof, runs: Mapping[int, Run]) -> dict[str, Any]:
    """Return the columns that a proof fills. The estimate is frozen once."""
    realised = proof.realised
    return {
        "state": proof.state,
        "state_reason": _reason(proof),
        "claimed_by": runs[proof.claimed_by],
        "claimed_estimate": row.claimed_estimate or estimates.document(row),
        "claimed_candidate": proof.candidate,
        "proven_by": runs[proof.proven_by] if proof.proven_by is not None else None,
        "realised_usd": realised.usd if realised else None,
        "realised_low_usd": realised.low_usd if realised else None,
        "realised_high_usd": realised.high_usd if realised else None,
        "realised_runs": realised.runs if realised else 0,
        "reopened_by": row.reopened_by if _stays_reopened(row, proof, runs) else None,
    }


def _stays_reopened(row: Recommendation, proof: Proof, runs: Mapping[int, Run]) -> bool:
    """Return whether the newest run has gone back; one that isn't complete is believed until it
    is.
    """
    is_complete = any(run.pk == row.reopened_by_id for run in runs.values())
    may_pay = proof.state != Recommendation.FAILED
    return may_pay and (proof.is_lapsed or not is_complete)


def _reason(proof: Proof) -> str:
    missing = "; ".join(proof.missing)
    if not proof.savings:
        return f"Nothing can be compared: {missing}." if missing else ""
    parts = [f"Not counted: {missing}."] if missing else []
    if proof.state == CLAIMED:
        parts.insert(0, "More runs are needed to tell a saving from the run-to-run variation.")
    return " ".join(parts)


def _state_unfollowed(row: Recommendation) -> str:
    """Return the state: open again, unless another one of its kind is open."""
    same = Recommendation.objects.filter(job_id=row.job_id, dedupe_key=row.dedupe_key)
    is_taken = same.filter(state__in=(Recommendation.ACTIVE, Recommendation.SNOOZED)).exists()
    return Recommendation.EXPIRED if is_taken else Recommendation.ACTIVE


def _write_savings(
    row: Recommendation, savings: Sequence[RunSaving], runs: Mapping[int, Run]
) -> None:
    known = {saved.run_id: saved for saved in row.savings.all()}
    wanted = {runs[each.number].pk: _saving(row, each, runs[each.number]) for each in savings}
    gone = [saved.pk for run_id, saved in known.items() if run_id not in wanted]
    if gone:
        RealisedSaving.objects.filter(pk__in=gone).delete()
    changed = [saved for run_id, saved in wanted.items() if _differs(saved, known.get(run_id))]
    RealisedSaving.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["recommendation", "run"],
        update_fields=_SAVING_FIELDS,
    )


def _saving(row: Recommendation, saved: RunSaving, run: Run) -> RealisedSaving:
    low, high = saved.interval
    promised: Sequence[Decimal | None] = saved.predicted_usd or (None, None, None)
    return RealisedSaving(
        recommendation=row,
        run=run,
        usd=saved.usd,
        low_usd=low,
        high_usd=high,
        baseline_usd=saved.baseline_usd,
        is_own_way=saved.is_own_way,
        predicted_low_usd=promised[0],
        predicted_usd=promised[1],
        predicted_high_usd=promised[2],
    )


def _differs(one: RealisedSaving, other: RealisedSaving | None) -> bool:
    return other is None or any(
        getattr(one, name) != getattr(other, name) for name in _SAVING_FIELDS
    )
