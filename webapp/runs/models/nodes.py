"""The machines of a run, and the agents' sessions on them."""

from __future__ import annotations

from datetime import timedelta

from django.db import models

from webapp.runs.models.jobs import Run


class Attempt(models.Model):
    """One start of a run's processes on one set of nodes."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="one_attempt_a_number")
        ]
        ordering = ["number"]

    def __str__(self) -> str:
        return f"{self.run} attempt {self.number}"


class Node(models.Model):
    """One machine in an attempt: its hardware, and the part allocated to the run."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="nodes")
    number = models.PositiveIntegerField(default=1)
    """Number within the run, in order of appearance."""
    machine_id = models.CharField(max_length=120)
    hostname = models.CharField(max_length=120, blank=True)
    provider = models.CharField(max_length=120, blank=True)
    service = models.CharField(max_length=120, blank=True)
    region = models.CharField(max_length=120, blank=True)
    zone = models.CharField(max_length=120, blank=True)
    instance_type = models.CharField(max_length=120, blank=True)
    purchase_option = models.CharField(max_length=120, default="on_demand")
    owns_machine = models.BooleanField(default=False)
    instance_started_at = models.DateTimeField(null=True, blank=True)
    """The machine's start, according to its cloud; null if unknown."""
    vcpus = models.PositiveIntegerField(default=0)
    effective_cpus = models.FloatField(default=0)
    memory_bytes = models.BigIntegerField(default=0)
    effective_memory_bytes = models.BigIntegerField(default=0)
    cpu_model = models.CharField(max_length=120, blank=True)
    gpus = models.JSONField(default=list, blank=True)
    """[{model, memory_bytes, uuid, allocated}], in the order of the `gpuN` series."""
    energy = models.JSONField(default=dict, blank=True)
    """The measured energy of the run's GPUs: UTC day -> [joules, measured seconds]. Empty: not
    measured."""
    billing = models.JSONField(default=dict, blank=True)
    """The billed time according to its platform; see `advisor.costing.billing`. Empty: the time for
    which it was held."""
    declared = models.JSONField(default=dict, blank=True)
    """The agent's values of the fields that a person corrected. Later declarations change only
    these."""
    corrected_by = models.CharField(max_length=300, blank=True)
    corrected_at = models.DateTimeField(null=True, blank=True)
    expired_uploads = models.JSONField(default=dict, blank=True)
    """Session -> how many refused uploads its agent deleted unsent."""
    allows_stop = models.BooleanField(default=False)
    """True if the agent was started with `--allow-stop`, so that a rule may stop the command."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "machine_id"], name="one_node_a_machine")
        ]
        indexes = [
            # Each analysis asks which other runs were on its machines.
            models.Index(fields=["machine_id"], name="nodes_of_a_machine"),
            # Advice asks who last used the few types that lists lack.
            models.Index(fields=["instance_type", "region"], name="nodes_of_a_type"),
        ]
        ordering = ["number"]

    def __str__(self) -> str:
        return self.hostname or self.key

    @property
    def key(self) -> str:
        """The node's key within its run, for rules and stored numbers."""
        return f"node-{self.number}"


class Session(models.Model):
    """One agent process on a node. All its times are relative to its start."""

    id = models.UUIDField(primary_key=True, editable=False)
    node = models.ForeignKey(Node, models.CASCADE, related_name="sessions")
    boot_id = models.CharField(max_length=120)
    started_at = models.DateTimeField()
    """The session's start by the machine's own clock."""
    clock_offset_ms = models.BigIntegerField(default=0)
    """Correction to add to the machine's clock; 0 if within the noise of an upload."""
    last_ms = models.BigIntegerField(default=0)
    """The last known moment, since the start."""
    ended_ms = models.BigIntegerField(null=True, blank=True)
    final_seq = models.PositiveIntegerField(null=True, blank=True)
    end_state = models.CharField(max_length=16, blank=True)
    end_rule = models.CharField(max_length=120, blank=True)
    """The rule that stopped it, if any."""
    exit_code = models.IntegerField(null=True, blank=True)
    ending = models.JSONField(default=dict, blank=True)
    """The facts that the machine knew about a failure: signal, kills for memory, sizes."""
    stderr = models.JSONField(default=list, blank=True)
    """The last lines of standard error, if the run was started with --keep-stderr."""
    stages = models.JSONField(default=list, blank=True)
    """The commands of a shell script: number, name, began_ms and, once known, ended_ms."""

    def __str__(self) -> str:
        return str(self.id)

    @property
    def corrected_started_at(self):  # type: ignore[no-untyped-def]
        return self.started_at + timedelta(milliseconds=self.clock_offset_ms)

    @property
    def interval(self):  # type: ignore[no-untyped-def]
        """Return when this session started and ended on its node, in corrected UTC."""
        start = self.corrected_started_at
        length = self.last_ms if self.ended_ms is None else self.ended_ms
        return start, start + timedelta(milliseconds=length)
