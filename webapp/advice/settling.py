"""Derives the states and realised savings of a job's recommendations from its runs.

They are derived again whenever runs come, go, move, or are judged or priced again, so no event is
counted twice and none is missed. What a person decided stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from advisor.comparison.job_metrics import from_document
from advisor.proof.proving import CLAIMED, COUNTED, Proof, prove
from advisor.proof.saving import RunSaving
from webapp.advice import estimates, evidence
from webapp.advice.models import RealisedSaving, Recommendation
from webapp.analysis import noise_prior
from webapp.runs.models import Job, Run

RECENTLY = timedelta(days=30)
"""How long an expired recommendation may still turn out to have been followed."""
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
}


def settle(job: Job, **_: Any) -> None:
    """Write what the job's runs tell of its recommendations. Call in a transaction that has the
    job locked."""
    rows = list(_open_to_proof(job))
    if not rows:
        return
    runs = evidence.runs_since(job, min(row.run.began_at for row in rows))
    if len(runs) == evidence.MOST_RUNS:
        # What began before them stays as it was proven.
        rows = [row for row in rows if row.run.began_at >= runs[0].began_at]
    rules = {rule for row in rows for rule in row.rules}
    proofs = prove(
        [estimates.promise(row) for row in rows],
        evidence.plain(runs, rules, any(map(estimates.is_about_place, rows))),
        evidence.Prices(job),
        noise_prior.of(runs) if runs else None,
        from_document(job.metrics),
    )
    numbered = {run.number: run for run in runs}
    for row in rows:
        _write(row, proofs.get(row.pk), numbered)


def _open_to_proof(job: Job) -> QuerySet[Recommendation]:
    """Those that runs may follow, or have followed in the last year. Provisional advice may still
    change, and advice that a person dismissed is left alone."""
    now = timezone.now()
    state = Recommendation
    followed = Q(state__in=state.FOLLOWED) & (
        Q(claimed_by=None) | Q(claimed_by__started_at__gte=now - COUNTED)
    )
    expired = Q(state=state.EXPIRED, changed_at__gte=now - RECENTLY)
    wanted = Q(state__in=(state.ACTIVE, state.SNOOZED)) | followed | expired
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
    """The columns that a proof fills. The estimate is frozen once."""
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
    }


def _reason(proof: Proof) -> str:
    missing = "; ".join(proof.missing)
    if not proof.savings:
        return f"Nothing can be compared: {missing}." if missing else ""
    parts = [f"Not counted: {missing}."] if missing else []
    if proof.state == CLAIMED:
        parts.insert(0, "More runs are needed to tell a saving from the run-to-run variation.")
    return " ".join(parts)


def _state_unfollowed(row: Recommendation) -> str:
    """Open again, unless another one of its kind is."""
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
        predicted_low_usd=promised[0],
        predicted_usd=promised[1],
        predicted_high_usd=promised[2],
    )


def _differs(one: RealisedSaving, other: RealisedSaving | None) -> bool:
    return other is None or any(
        getattr(one, name) != getattr(other, name) for name in _SAVING_FIELDS
    )
