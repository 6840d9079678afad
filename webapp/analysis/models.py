"""Queued analyses and compactions, and the results of analyses."""

from __future__ import annotations

from decimal import Decimal

from django.db import models
from django.utils import timezone

from advisor.money import share_of_usd
from advisor.successive.comparability import ROLES
from rules.step_ranges import StepRange
from webapp.background.models import Claimable
from webapp.database.money import UsdField
from webapp.prices.models import Price
from webapp.runs.models import Job, Node, Run


class Analysis(Claimable):
    """The analysis of one run. `wanted` rises with every upload."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="analysis")
    is_final = models.BooleanField(default=False)
    analysed = models.DurationField(null=True, blank=True)
    """How long the run was, as far as the last whole analysis saw it; None: not known."""
    looked_at = models.DateTimeField(null=True, blank=True)
    """When the last look at the run was done."""
    called_at = models.DateTimeField(null=True, blank=True)
    """When a whole analysis was last done because a look called for it."""
    called_for = models.JSONField(default=list, blank=True)
    """The rules that looks saw fire and that wait for their share of the time."""
    watched_at = models.DateTimeField(null=True, blank=True)
    """When a person last had the running run's page open, to half a minute."""

    def __str__(self) -> str:
        return f"analysis of {self.run}"


class Compaction(Claimable):
    """The compaction of one node's segments. `wanted` rises when there is enough to compact."""

    node = models.OneToOneField(Node, models.CASCADE, related_name="compaction")
    charts_version = models.PositiveSmallIntegerField(default=0, db_default=0)
    """The release of charts' chunks that it has; 0: none."""

    def __str__(self) -> str:
        return f"compaction of {self.node}"


class Judgement(models.Model):
    """What one rule measured and judged on one run; a fired one is a finding."""

    FIRED, PASSED = "fired", "passed"
    NOT_APPLICABLE, INSUFFICIENT = "not_applicable", "insufficient_data"
    run = models.ForeignKey(Run, models.CASCADE, related_name="judgements")
    rule = models.CharField(max_length=64)
    rule_version = models.PositiveIntegerField()
    values_hash = models.CharField(max_length=16)
    values = models.JSONField()
    numbers = models.JSONField()
    state = models.CharField(max_length=24)
    severity = models.CharField(max_length=8)
    summary = models.TextField()
    advice = models.TextField(blank=True)
    waste_seconds_low = models.FloatField(default=0)
    waste_seconds_high = models.FloatField(default=0)
    waste_usd_low = UsdField(null=True, blank=True)
    waste_usd_high = UsdField(null=True, blank=True)
    dedupe_key = models.CharField(max_length=200, blank=True)
    explained_by = models.CharField(max_length=64, blank=True)
    """The rule whose finding on the same run explains this one; empty: it is a cause of its own."""
    counted_share = models.FloatField(default=1)
    """The share of its waste, 0 to 1, that no other finding of the run counts."""
    is_provisional = models.BooleanField(default=True)
    first_fired_at = models.DateTimeField(null=True, blank=True)
    judged_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "rule"], name="one_judgement_a_rule")]
        ordering = ["rule"]

    def __str__(self) -> str:
        return f"{self.rule} on {self.run}: {self.state}"

    @property
    def counted_usd_low(self) -> Decimal | None:
        return self._counted_usd(self.waste_usd_low)

    @property
    def counted_usd_high(self) -> Decimal | None:
        return self._counted_usd(self.waste_usd_high)

    @property
    def counted_seconds_low(self) -> float:
        return self.counted_share * self.waste_seconds_low

    @property
    def counted_seconds_high(self) -> float:
        return self.counted_share * self.waste_seconds_high

    def _counted_usd(self, usd: Decimal | None) -> Decimal | None:
        return None if usd is None else share_of_usd(usd, self.counted_share)


class CostPart(models.Model):
    """The cost of one node on one UTC day; the parts of a run sum to its cost exactly."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="cost_parts")
    node = models.ForeignKey(Node, models.CASCADE, related_name="cost_parts")
    day = models.DateField()
    microseconds = models.BigIntegerField()
    usd = UsdField()
    charges = models.JSONField(null=True, blank=True)
    """What each second cost, see `advisor.costing.charges`; null: written by an earlier version."""
    prices: models.ManyToManyField[Price, models.Model] = models.ManyToManyField(Price)
    is_later_price = models.BooleanField(default=False)
    is_estimated = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "day"], name="one_cost_a_node_and_day")
        ]
        # Covering, because the charges of a row are long, and sums shouldn't read them.
        indexes = [models.Index(fields=["day", "run", "usd"], name="costs_summed_by_day")]
        ordering = ["day", "node"]

    def __str__(self) -> str:
        return f"{self.run} {self.day}: {self.usd}"


class LedgerEntry(models.Model):
    """The time of one label on one GPU, or on a node without GPUs, and its cost.

    The entries of a run sum to its cost exactly.
    """

    run = models.ForeignKey(Run, models.CASCADE, related_name="ledger_entries", db_index=False)
    node = models.ForeignKey(Node, models.CASCADE, related_name="ledger_entries")
    gpu = models.PositiveIntegerField(null=True, blank=True)
    label = models.CharField(max_length=24)
    """One of `rules.ledger_labels.LABELS`."""
    microseconds = models.BigIntegerField()
    """Time of the GPU, or of the node."""
    usd = UsdField(null=True, blank=True)
    """None: no price."""

    class Meta:
        # Covering: the sum of many runs reads no row.
        indexes = [
            models.Index(
                fields=["run", "label", "microseconds", "usd", "gpu"], name="ledger_summed_by_run"
            )
        ]
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.run} {self.node.key} {self.label}: {self.usd}"


class NumberedSteps(models.Model):
    """The numbers of a run's steps within its training, and which of them its ledger took to
    count."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="numbered_steps")
    ranges = models.JSONField(default=list)
    """As `rules.step_ranges.StepRange`, in its order of fields; times since 1970."""
    kept = models.JSONField(default=list)
    """Of each range, the last number that counts."""
    blocks = models.JSONField(default=list)
    """Of the steps that count, as `rules.slowdown.Block`."""
    is_unknown = models.BooleanField(default=False)
    """Some of its steps have no known number."""

    def __str__(self) -> str:
        return f"numbered steps of {self.run}"

    @property
    def step_ranges(self) -> list[StepRange]:
        return [StepRange(*each) for each in self.ranges]


class CheckpointFile(models.Model):
    """A file that a run saved, or that it had loaded before its first step."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="checkpoint_files")
    fingerprint = models.CharField(max_length=16)
    """Of its content, hexadecimal."""
    is_loaded = models.BooleanField()
    at_us = models.BigIntegerField()
    """Since 1970. Of a file that was saved or loaded several times: the last save, or the first
    load."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "is_loaded", "fingerprint"], name="one_checkpoint_file_a_run"
            )
        ]
        indexes = [models.Index(fields=["fingerprint", "is_loaded"], name="checkpoints_by_content")]

    def __str__(self) -> str:
        return f"{self.fingerprint} of {self.run}"


class Life(models.Model):
    """From one end of a run's processes to the next: how it ended, and what it cost to start it and
    to do its lost work. The lives of a run sum to its ledger's labels."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="lives")
    number = models.PositiveIntegerField()
    """From 0, as `rules.lives` orders them."""
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    ending = models.CharField(max_length=16, blank=True)
    """As `rules.lives.Life` has it."""
    node = models.ForeignKey(Node, models.CASCADE, related_name="+")
    """The first that ended; the run's last one, if none did."""
    times = models.JSONField(default=list)
    """[node's key, label, microseconds] for each of `rules.ledger.OF_LIVES`."""
    lost_us = models.BigIntegerField(default=0)
    """Of GPUs, or of nodes without GPUs, as `start_us`."""
    lost_usd = UsdField(null=True, blank=True)
    """Of the work that was done again; null: no price."""
    start_us = models.BigIntegerField(default=0)
    start_usd = UsdField(null=True, blank=True)
    """Of the time until its first step, and of its slower first steps; null: no price."""
    is_lost_known = models.BooleanField(default=False)
    """The numbers of all of the run's steps are known, so that none is lost unseen."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="one_life_a_number")]
        indexes = [models.Index(fields=["ended_at"], name="lives_by_their_end")]
        ordering = ["run", "number"]

    def __str__(self) -> str:
        return f"{self.run} life {self.number}"


class Regression(models.Model):
    """A confirmed change for the worse, from its first run until a later level is back or a person
    accepts it. Derived from the verdicts on the job's runs; rewritten with them."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="regressions")
    since = models.OneToOneField(Run, models.CASCADE, related_name="+")
    """The first run that was worse."""
    confirmed_by = models.ForeignKey(Run, models.CASCADE, related_name="+")
    last = models.ForeignKey(Run, models.CASCADE, related_name="+")
    """The last run before its end, else the newest one."""
    ended_by = models.ForeignKey(Run, models.CASCADE, null=True, blank=True, related_name="+")
    """The run that showed that the level is back; null: not over, or accepted."""
    is_accepted = models.BooleanField(default=False)
    change = models.FloatField()
    """Of machine time per unit of work, as a ratio minus 1."""
    run_count = models.PositiveIntegerField()
    extra_usd = UsdField(null=True, blank=True)
    """What its runs cost more than at the level before; null: none of them has a price."""
    opened_at = models.DateTimeField(default=timezone.now)
    """When it was first known."""
    ended_at = models.DateTimeField(null=True, blank=True)
    """When its end was first known."""

    class Meta:
        ordering = ["-opened_at"]

    def __str__(self) -> str:
        return f"regression of {self.job} since #{self.since.number}"

    @property
    def is_open(self) -> bool:
        return self.ended_by_id is None and not self.is_accepted


class AcceptedLevel(models.Model):
    """A person accepted the regression that was open at this run: its level is the new measure."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="accepted_level")
    note = models.TextField(max_length=2000, blank=True)
    accepted_by = models.CharField(max_length=300)
    accepted_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"accepted level of {self.run}"


class ParameterRole(models.Model):
    """A person's choice whether a parameter is part of a job's work, tunes it, or is ignored."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="parameter_roles")
    name = models.CharField(max_length=200)
    role = models.CharField(max_length=16, choices=[(role, role) for role in ROLES])

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "name"], name="one_role_a_parameter"),
        ]
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} of {self.job}: {self.role}"
