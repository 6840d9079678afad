"""Queries for expired rows. They delete nothing and read no objects."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

from django.db.models import Exists, Model, OuterRef, Q, QuerySet, Subquery

from advisor.store.index import CHART_KINDS
from webapp.accounts.models import Workspace
from webapp.advice.models import RealisedSaving, Recommendation
from webapp.analysis.models import Analysis
from webapp.background.conditions import is_open
from webapp.runs.models import UNDO_DAYS, Artefact, Chunk, Job, Run, Segment

Row = TypeVar("Row", bound=Model)

UNDO_WORKSPACE = timedelta(days=7)
"""The time for which the deletion of a workspace can be undone."""
HOUR = timedelta(hours=1)
UNDO_RUN = timedelta(days=UNDO_DAYS)


def settled_runs(workspace: Workspace) -> QuerySet[Run]:
    """Return the runs that ended, were lost or failed to import, and whose analysis is complete."""
    pending = Analysis.objects.filter(is_open(), run=OuterRef("pk"))
    ended = Run.objects.filter(workspace=workspace).exclude(state__in=(Run.RUNNING, Run.IMPORTING))
    return ended.exclude(Exists(pending))


def raw_chunks(workspace: Workspace, now: datetime) -> QuerySet[Chunk]:
    """Return the expired single samples, if 60 s means of the same hour are kept."""
    tier = Chunk.objects.filter(
        node=OuterRef("node"),
        kind="samples",
        tier_seconds=60,
        starts_at=OuterRef("starts_at"),
        replaced_at=None,
    )
    raw = _chunks(workspace, now, workspace.keep_raw_days).filter(kind="samples", tier_seconds=0)
    return raw.filter(Exists(tier))


def tier_chunks(workspace: Workspace, now: datetime) -> QuerySet[Chunk]:
    """Return the expired compacted objects: tiers, steps, events, single samples; and chunks of
    many hours of which any hour expired. Charts read the other hours from chunks of their own.
    """
    days = workspace.keep_tiers_days
    charts = _older(_kept(workspace), "starts_at", now - HOUR, days).filter(kind__in=CHART_KINDS)
    return _chunks(workspace, now, days) | charts


def left_segments(workspace: Workspace, now: datetime) -> QuerySet[Segment, tuple[str, UUID]]:
    """Return the object keys of uploads that were never compacted, because an object of their hour
    can't be read, each with its run. The run comes by a subquery, since with joins SQLite can begin
    with every session.
    """
    run = Run.objects.filter(attempts__nodes__sessions=OuterRef("session"))
    is_settled = Exists(
        settled_runs(workspace).filter(attempts__nodes__sessions=OuterRef("session"))
    )
    segments = Segment.objects.with_object().filter(is_settled).order_by()
    older = _older(segments, "received_at", now, workspace.keep_tiers_days)
    return older.values_list("object_key", Subquery(run.values("pk")))


def artefacts(workspace: Workspace, now: datetime) -> QuerySet[Artefact]:
    artefacts = Artefact.objects.filter(_is_settled(workspace, "run"))
    return _older(artefacts, "created_at", now, workspace.keep_tiers_days)


def old_runs(workspace: Workspace, now: datetime) -> QuerySet[Run]:
    """Return the expired runs, except those behind a followed recommendation or a realised
    saving.
    """
    followed = Recommendation.objects.exclude(
        state__in=(Recommendation.ACTIVE, Recommendation.EXPIRED)
    )
    evidence = followed.filter(Q(run=OuterRef("pk")) | Q(claimed_by=OuterRef("pk")))
    old = _older(settled_runs(workspace), "ended_at", now, workspace.keep_runs_days)
    saved = RealisedSaving.objects.filter(run=OuterRef("pk"))
    return old.exclude(Exists(evidence)).exclude(Exists(saved))


def deleted_runs(workspace: Workspace, now: datetime) -> QuerySet[Run]:
    """Return the runs that were deleted, alone or with their job, too long ago to be undone."""
    gone = Q(deleted_at__lt=now - UNDO_RUN) | Q(job__in=deleted_jobs(workspace, now))
    return Run.objects.filter(gone, workspace=workspace)


def deleted_jobs(workspace: Workspace, now: datetime) -> QuerySet[Job]:
    """Return the jobs to delete. The jobs merged into each are deleted with it."""
    return Job.objects.filter(workspace=workspace, deleted_at__lt=now - UNDO_RUN)


def deleted_workspaces(now: datetime) -> QuerySet[Workspace]:
    return Workspace.objects.filter(deleted_at__lt=now - UNDO_WORKSPACE)


def _chunks(workspace: Workspace, now: datetime, days: int | None) -> QuerySet[Chunk]:
    return _older(_kept(workspace), "ends_at", now, days)


def _kept(workspace: Workspace) -> QuerySet[Chunk]:
    is_settled = _is_settled(workspace, "node__attempt__run")
    return Chunk.objects.filter(is_settled, replaced_at=None).select_related("node__attempt")


def _is_settled(workspace: Workspace, run: str) -> Exists:
    """Return the condition that a row's run is settled. It is evaluated for each row that has
    expired: most runs of a workspace have none.
    """
    return Exists(settled_runs(workspace).filter(pk=OuterRef(run)))


def _older(rows: QuerySet[Row], field: str, now: datetime, days: int | None) -> QuerySet[Row]:
    """Return the rows whose `field` is more than `days` ago; none if they are kept indefinitely."""
    if days is None:
        return rows.none()
    return rows.filter(**{f"{field}__lt": now - timedelta(days=days)})
