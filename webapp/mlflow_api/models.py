"""The rows that MLflow's clients may read again, beside the run that they log to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import models
from django.utils import timezone

from webapp.accounts.models import Token, Workspace
from webapp.database.bytewise import PathField
from webapp.runs.models import Artefact, Job, Run

_METRIC_CHARS = 100


class TrackedRun(models.Model):
    """A run as MLflow's clients see it."""

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, related_name="mlflow")
    experiment = models.ForeignKey(Job, models.CASCADE, related_name="+")
    """The job that the client named. The run's own is another one where that was merged, or where
    the agent named it."""
    name = models.CharField(max_length=500)
    user = models.CharField(max_length=250, blank=True)
    status = models.CharField(max_length=16, default="RUNNING")
    is_deleted = models.BooleanField(default=False)
    """True once a client has deleted the run. It still costs what it cost, so only clients no
    longer see it."""
    started_ms = models.BigIntegerField()
    """Unix time by the client's clock."""
    ended_ms = models.BigIntegerField(null=True, blank=True)
    params = models.JSONField(default=dict, blank=True)
    tags = models.JSONField(default=dict, blank=True)
    latest = models.JSONField(default=dict, blank=True)
    """Metric -> [value, timestamp, step] of its last step; values that JSON lacks are texts."""
    inputs = models.JSONField(default=list, blank=True)
    """Datasets, as the client sent them."""
    outputs = models.JSONField(default=list, blank=True)
    """Logged models, as the client sent them."""
    agent = models.JSONField(default=dict, blank=True)
    """The agent's session, if the program runs inside `trimtab run`."""

    class Meta:
        indexes = [models.Index(fields=["experiment", "-started_ms"], name="tracked_runs_newest")]

    def __str__(self) -> str:
        return self.name

    def size(self) -> int:
        """Return about how many characters its document has."""
        labels = sum(map(_chars, (self.params, self.tags, *self.inputs)))
        return labels + _METRIC_CHARS * len(self.latest)


class DeletedExperiment(models.Model):
    """An experiment that a client has deleted. Its job stays with what it cost, so only clients no
    longer see it and its runs.
    """

    job = models.OneToOneField(
        Job, models.CASCADE, primary_key=True, related_name="mlflow_deletion"
    )
    deleted_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return str(self.job)


class Feed(models.Model):
    """A session of the run to which metrics are written as segments."""

    tracked = models.ForeignKey(TrackedRun, models.CASCADE, related_name="feeds")
    session_id = models.UUIDField()
    node = models.CharField(max_length=100, blank=True)
    """The node's name, as MLFLOW_SYSTEM_METRICS_NODE_ID has it."""
    machine_id = models.CharField(max_length=120)
    attempt = models.PositiveIntegerField(default=0)
    started_at_ns = models.BigIntegerField()
    next_seq = models.PositiveIntegerField(default=0)
    gpus = models.PositiveIntegerField(default=0)
    """The number of GPUs seen in system metrics."""
    cadence_ms = models.PositiveIntegerField(default=0)
    """The time between two samples of system metrics; 0 if not known yet."""
    sampled_ms = models.BigIntegerField(null=True, blank=True)
    """Unix time of the last sample."""
    is_ended = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tracked", "session_id"], name="one_feed_a_tracked_session"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tracked} {self.node}".strip()


class Logged(models.Model):
    """A segment of a feed, by what it holds: a request that is repeated logs nothing twice."""

    feed = models.ForeignKey(Feed, models.CASCADE, related_name="logged")
    digest = models.CharField(max_length=32)
    seq = models.PositiveIntegerField()
    cadence_ms = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["feed", "digest"], name="one_segment_a_content"),
        ]

    def __str__(self) -> str:
        return f"{self.feed}/{self.seq}"


class LoggedModel(models.Model):
    """A model that a run logged."""

    id = models.CharField(primary_key=True, max_length=40)
    tracked = models.ForeignKey(TrackedRun, models.CASCADE, related_name="logged_models")
    name = models.CharField(max_length=500)
    kind = models.CharField(max_length=250, blank=True)
    status = models.CharField(max_length=40, default="LOGGED_MODEL_PENDING")
    params = models.JSONField(default=dict, blank=True)
    tags = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name

    def size(self) -> int:
        """Return about how many characters its document has."""
        return _chars(self.params) + _chars(self.tags)


class RegisteredModel(models.Model):
    """A name under which a workspace keeps versions of a model."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="registered_models")
    name = models.CharField(max_length=256)
    description = models.TextField(blank=True)
    tags = models.JSONField(default=dict, blank=True)
    aliases = models.JSONField(default=dict, blank=True)
    """Alias -> the number of a version."""
    versions_made = models.PositiveIntegerField(default=0)
    """The last number used. Numbers are never reused."""
    created_by = models.ForeignKey(Token, models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="one_registered_model_a_name"
            )
        ]

    def __str__(self) -> str:
        return self.name

    def size(self) -> int:
        """Return about how many characters its document has, without its versions."""
        return _chars(self.tags) + len(self.description)


class ModelVersion(models.Model):
    """A version of a registered model."""

    registered = models.ForeignKey(RegisteredModel, models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    tracked = models.ForeignKey(
        TrackedRun, models.SET_NULL, null=True, blank=True, related_name="model_versions"
    )
    """The run that logged the model, if it is known."""
    model_id = models.CharField(max_length=40, blank=True)
    """The logged model that was registered."""
    source = models.CharField(max_length=500)
    """The place of the files as the client said it."""
    location = models.CharField(max_length=500)
    """The place at which clients find the files."""
    run_link = models.CharField(max_length=500, blank=True)
    description = models.TextField(blank=True)
    stage = models.CharField(max_length=20, default="None")
    tags = models.JSONField(default=dict, blank=True)
    created_by = models.ForeignKey(Token, models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["registered", "number"], name="one_version_a_number")
        ]

    def __str__(self) -> str:
        return f"{self.registered} {self.number}"

    def size(self) -> int:
        """Return about how many characters its document has."""
        return _chars(self.tags) + len(self.description)


class LoggedFile(models.Model):
    """The path of an artefact: one content may have several."""

    tracked = models.ForeignKey(TrackedRun, models.CASCADE, related_name="files")
    model = models.CharField(max_length=40, blank=True)
    """The logged model that it belongs to; empty if it belongs to the run itself."""
    path = PathField(max_length=500)
    artefact = models.ForeignKey(Artefact, models.CASCADE, related_name="+")
    written_by = models.ForeignKey(Token, models.SET_NULL, null=True, blank=True, related_name="+")
    """The token that wrote the path first, and may delete it. None for a token that is gone, or of
    an earlier version."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tracked", "model", "path"], name="one_file_a_path")
        ]
        ordering = ["path"]

    def __str__(self) -> str:
        return self.path


def _chars(values: Mapping[str, Any]) -> int:
    return sum(len(key) + len(str(value)) for key, value in values.items())
