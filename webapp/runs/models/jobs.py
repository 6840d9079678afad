"""Jobs, their runs, and the trainings that runs make up."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from advisor.run_summary import RunSummary
from webapp.accounts.models import Token, Workspace
from webapp.database.money import UsdField
from webapp.runs.fields import RunSummaryField

UNDO_DAYS = 30
"""The days within which the deletion of a job or run can be undone."""


class Job(models.Model):
    """A training job that is run repeatedly. Names and keys share one namespace: no job's name is
    another job's key."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="jobs")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    key = models.CharField(max_length=200, editable=False)
    """The name that agents send; never changed."""
    name = models.CharField(max_length=200)
    """The displayed name."""
    owner = models.CharField(max_length=120, blank=True)
    """Default owner of the job's runs; `tags` are defaults, too."""
    tags = models.JSONField(default=dict, blank=True)
    metrics = models.JSONField(default=dict, blank=True)
    """Metric -> its better direction and tolerated loss, as `advisor.comparison.job_metrics` has
    it."""
    runs_made = models.PositiveIntegerField(default=0)
    """The last run number used. Numbers are never reused."""
    deleted_at = models.DateTimeField(null=True, blank=True)
    """Hidden from every page with all of its runs. Can be restored for a time."""
    merged_into = models.ForeignKey(
        "self", models.CASCADE, null=True, blank=True, related_name="merged_jobs"
    )
    """Hidden from every page. Its runs, and those that agents send under its key, belong to this
    other job."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="one_job_a_name"),
            models.UniqueConstraint(fields=["workspace", "key"], name="one_job_a_key"),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **more: Any) -> None:
        self.key = self.key or self.name
        super().save(*args, **more)

    @property
    def present_runs(self) -> RunQuerySet:
        """The runs that aren't deleted."""
        return Run.objects.filter(job=self).present()

    @property
    def compared_runs(self) -> RunQuerySet:
        """The runs that may be compared, without probes."""
        return self.present_runs.ordinary()


def began() -> Coalesce:
    """Return the start of a run or, if it is unknown, when the run was first seen. A job's runs are
    sorted by it.

    Their numbers follow the order of arrival: old runs can be imported or merged.
    """
    return Coalesce("started_at", "created_at")


class RunQuerySet(models.QuerySet["Run"]):
    def present(self) -> RunQuerySet:
        """Return the runs that aren't deleted: all that are shown, summed or compared."""
        return self.filter(deleted_at=None)

    def ordinary(self) -> RunQuerySet:
        """Return the runs without probes, which say nothing about a job's levels, rhythm or usual
        cost.
        """
        return self.filter(probe__isnull=True)

    def newest_first(self) -> RunQuerySet:
        return self.order_by(began().desc(), "-number")

    def began_before(self, run: Run) -> RunQuerySet:
        # The bound is redundant, but lets the database use the index.
        earlier = Q(began__lt=run.began_at) | Q(began=run.began_at, number__lt=run.number)
        return self.alias(began=began()).filter(earlier, began__lte=run.began_at)

    def began_after(self, run: Run) -> RunQuerySet:
        later = Q(began__gt=run.began_at) | Q(began=run.began_at, number__gt=run.number)
        return self.alias(began=began()).filter(later, began__gte=run.began_at)


class Training(models.Model):
    """The runs that continue one another. A run without a training is one of its own."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="trainings")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    key = models.CharField(max_length=120, blank=True)
    """The name that people gave it; empty if its runs were joined by hand or automatically."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "key"], name="one_training_a_key", condition=~Q(key="")
            )
        ]

    def __str__(self) -> str:
        return self.key or str(self.uuid)


class Run(models.Model):
    """One execution of a job. The agent creates its id, so that nodes join without asking the
    service."""

    RUNNING, FINISHED, FAILED, STOPPED, LOST = "running", "finished", "failed", "stopped", "lost"
    IMPORTING, IMPORT_FAILED = "importing", "import_failed"
    """States of a run of which nothing but files has arrived: they wait for their conversion, or
    couldn't be converted."""
    ENDED = (FINISHED, FAILED, STOPPED)
    SCHEDULER, CHECKPOINT, STEPS = "scheduler", "checkpoint", "steps"
    CONTINUES_BY: ClassVar = [
        (SCHEDULER, "its scheduler started the job again"),
        (CHECKPOINT, "it loaded a checkpoint"),
        (STEPS, "its steps continue that run's"),
    ]
    STATES: ClassVar = [
        (RUNNING, "Running"),
        (FINISHED, "Finished"),
        (FAILED, "Failed"),
        (STOPPED, "Stopped"),
        (LOST, "Lost"),
        (IMPORTING, "Importing"),
        (IMPORT_FAILED, "Failed to import"),
    ]
    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="runs")
    job = models.ForeignKey(Job, models.CASCADE, related_name="runs")
    number = models.PositiveIntegerField()
    uploaders = models.ManyToManyField(Token, related_name="+")
    """Tokens that uploaded to it, as far as known: they may read it."""
    owner = models.CharField(max_length=120, blank=True)
    tags = models.JSONField(default=dict, blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    metrics = models.JSONField(default=dict, blank=True)
    """Last value of each user metric."""
    metric_progress = models.JSONField(default=dict, blank=True)
    """User metric -> points of its curve, [[seconds, value], ...]. Large, so lists don't load
    it."""
    work = models.JSONField(default=dict, blank=True)
    """Work done: unit -> quantity (samples, tokens, epochs, steps)."""
    workload = models.JSONField(default=dict, blank=True)
    configuration = models.JSONField(default=dict, blank=True)
    command = models.JSONField(default=list, blank=True)
    git = models.JSONField(default=dict, blank=True)
    agent_version = models.CharField(max_length=120, blank=True)
    probe = models.JSONField(null=True, blank=True)
    """The parameters of a probe, as `wire.Probe` has them; null for an ordinary run."""
    training = models.ForeignKey(
        Training, models.SET_NULL, null=True, blank=True, related_name="runs"
    )
    training_is_edited = models.BooleanField(default=False)
    """True once a person has joined or split the training. From then on nothing else does."""
    continues = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="continued_by"
    )
    """The run that this run continues, if that was detected automatically. Its training is that
    run's."""
    continues_by = models.CharField(
        max_length=16, choices=CONTINUES_BY, blank=True, default="", db_default=""
    )
    """The evidence for `continues`."""
    requeue = models.CharField(max_length=120, blank=True)
    """The scheduler's name for the job that it restarts; empty if unknown."""
    state = models.CharField(max_length=16, choices=STATES, default=RUNNING)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    """The last known moment, while the run has not ended."""
    stopped_by = models.CharField(max_length=120, blank=True)
    """The rule that stopped it, if any."""
    last_received_at = models.DateTimeField(default=timezone.now)
    created_at = models.DateTimeField(default=timezone.now)
    cost_usd = UsdField(null=True, blank=True)
    """The cost; None without a price, or if not priced yet."""
    summary: models.Field[RunSummary, RunSummary] = RunSummaryField(default=RunSummary, blank=True)
    """Results of the last analysis, for lists and headlines."""
    note = models.TextField(blank=True, max_length=2000)
    owner_is_edited = models.BooleanField(default=False)
    """A person has set or cleared the owner. Declarations no longer change it."""
    edited_tags = models.JSONField(default=list, blank=True)
    """Keys that a person has set or removed. Declarations no longer change these tags."""
    is_excluded = models.BooleanField(default=False)
    """Never part of a baseline."""
    is_pinned = models.BooleanField(default=False)
    """True if the baseline uses this run. As soon as a job has pinned runs, only these make up the
    baseline."""
    billed_usd = UsdField(null=True, blank=True)
    """The billed amount that a person entered; None if not entered."""
    billed_by = models.CharField(max_length=300, blank=True)
    billed_at = models.DateTimeField(null=True, blank=True)
    """The time at which a person entered `billed_usd`."""
    deleted_at = models.DateTimeField(null=True, blank=True)
    """Hidden from every page. Can be restored for a time."""
    raw_deleted_at = models.DateTimeField(null=True, blank=True)
    """The time at which retention deleted the single samples. The rules no longer measure the
    run."""
    samples_deleted_at = models.DateTimeField(null=True, blank=True)
    """The time at which retention deleted the remaining samples, so that no chart can be drawn."""

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="one_run_a_number"),
        ]
        indexes = [
            models.Index(fields=["workspace", "-created_at"]),
            # The index has present runs only, so that distant pages are found by it alone.
            models.Index(
                F("job"),
                began().desc(),
                F("number").desc(),
                name="runs_of_a_job_newest_first",
                condition=Q(deleted_at=None),
            ),
            models.Index(
                F("workspace"),
                began().desc(),
                F("number").desc(),
                name="runs_newest_first",
                condition=Q(deleted_at=None),
            ),
            models.Index(
                F("job"),
                began().desc(),
                F("number").desc(),
                name="pinned_runs",
                condition=Q(is_pinned=True, deleted_at=None),
            ),
            models.Index(fields=["workspace", "state"], name="runs_by_their_state"),
            models.Index(
                fields=["job", "requeue"], name="runs_started_again", condition=~Q(requeue="")
            ),
            # Covering indexes: rows are wide, and counting and summing shouldn't read them.
            models.Index(
                fields=[
                    *("workspace", "deleted_at", "started_at", "id", "cost_usd", "billed_usd"),
                    *("job", "owner"),
                ],
                name="runs_counted_by_start",
            ),
            models.Index(
                fields=["id", "workspace", "deleted_at", "cost_usd", "job", "owner"],
                name="runs_with_their_price",
            ),
            models.Index(
                fields=["job", "deleted_at", "workspace", "started_at", "created_at", "cost_usd"],
                name="runs_counted",
            ),
            models.Index(
                fields=[
                    *("workspace", "deleted_at", "job", "owner"),
                    *("started_at", "created_at", "cost_usd"),
                ],
                name="runs_counted_by_owner",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job} #{self.number}"

    @property
    def is_probe(self) -> bool:
        """True if the run only measured some steps and was then stopped."""
        return self.probe is not None

    @property
    def whose(self) -> str:
        """The run's owner or, if it has none, the job's."""
        return self.owner or self.job.owner

    @property
    def all_tags(self) -> dict[str, str]:
        """The run's tags, with the job's tags for other keys."""
        return {**self.job.tags, **self.tags}

    @property
    def began_at(self) -> datetime:
        return self.started_at or self.created_at

    @property
    def has_ended(self) -> bool:
        return self.state in self.ENDED

    @property
    def cost_is_at_least(self) -> bool:
        """The run still costs money, its end is unknown, or its platform bills more than is
        known.
        """
        return self.state in (self.RUNNING, self.LOST) or self.summary.is_at_least

    @property
    def duration(self) -> timedelta | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at


class MovedRun(models.Model):
    """A run's job and number before a merge, so that the merge can be undone."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="moves")
    came_from = models.ForeignKey(Job, models.CASCADE, related_name="lent_runs")
    number_before = models.PositiveIntegerField(null=True, blank=True)
    """The number before; None if the run arrived after the merge and never had a number in the
    merged job."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "came_from"], name="one_move_a_run_and_job")
        ]

    def __str__(self) -> str:
        return f"{self.run} from {self.came_from}"
