"""A run's stored objects: segments of samples, chunks and files."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.utils import timezone

from webapp.accounts.models import User
from webapp.runs.models.jobs import Run
from webapp.runs.models.nodes import Node, Session


class SegmentQuerySet(models.QuerySet["Segment"]):
    """A service has up to hundreds of millions of rows, few of which still have an object."""

    def with_object(self) -> SegmentQuerySet:
        """Return the segments that still have an object. The condition is written exactly as the
        index has it: with a parameter, SQLite doesn't see that the index fits.
        """
        has_object = "NOT (runs_segment.object_key = '')"
        return self.filter(RawSQL(has_object, (), models.BooleanField()))  # noqa: S611


class Segment(models.Model):
    """One upload. The row is written after its object, in one short transaction."""

    # The column has no index of its own: that of the constraint begins with it.
    session = models.ForeignKey(Session, models.CASCADE, related_name="segments", db_index=False)
    seq = models.PositiveIntegerField()
    object_key = models.CharField(max_length=300)
    sha256 = models.CharField(max_length=64)
    body_bytes = models.PositiveIntegerField()
    sample_count = models.PositiveIntegerField()
    start_ms = models.BigIntegerField()
    duration_ms = models.BigIntegerField()
    resolution_ms = models.PositiveIntegerField()
    refused = models.JSONField(default=list, blank=True)
    received_at = models.DateTimeField(default=timezone.now)
    compacted_at = models.DateTimeField(null=True, blank=True)
    """The time at which the segment's samples were moved to chunks. Its object is deleted after a
    grace period."""

    objects = SegmentQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "seq"], name="one_segment_a_seq")]
        ordering = ["session", "seq"]
        indexes = [
            models.Index(
                fields=["session", "received_at"],
                name="hot_segments",
                condition=Q(compacted_at=None),
            ),
            models.Index(
                fields=["compacted_at"], name="segments_with_object", condition=~Q(object_key="")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.session_id}/{self.seq}"


class Chunk(models.Model):
    """Compacted samples, steps or events of one node in one tier: of one hour, or of many for
    charts. A tail holds an hour's newest segments until the hour is compacted. Columns are what an
    hour adds to a running run's frame."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="chunks")
    kind = models.CharField(max_length=16)
    tier_seconds = models.PositiveIntegerField(default=0)
    object_key = models.CharField(max_length=300, unique=True)
    size_bytes = models.BigIntegerField(null=True, blank=True)
    """The size; None if an earlier version wrote the row, and it was not looked up yet."""
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    replaced_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["node", "kind", "starts_at"],
                name="chunks_of_a_node",
                condition=Q(replaced_at=None),
            ),
            models.Index(
                fields=["ends_at"], name="tails", condition=Q(kind="tail", replaced_at=None)
            ),
            models.Index(
                fields=["replaced_at"],
                name="replaced_chunks",
                condition=Q(replaced_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.object_key


class Artefact(models.Model):
    """A file that belongs to a run: a profile trace, an imported folder, a report."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="artefacts")
    kind = models.CharField(max_length=32)
    name = models.CharField(max_length=200)
    object_key = models.CharField(max_length=300)
    sha256 = models.CharField(max_length=64)
    size_bytes = models.BigIntegerField()
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "sha256"], name="one_artefact_a_content")
        ]
        ordering = ["created_at", "pk"]

    def __str__(self) -> str:
        return self.name
