"""Queued analyses and compactions, and the results of analyses."""

from __future__ import annotations

from decimal import Decimal

from django.db import models
from django.utils import timezone

from advisor.costing.recoverable import TakenPart, taken_words
from advisor.successive.comparability import ROLES
from rules.claims import Claim
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
    """The run's duration as far as the last whole analysis saw it; None if unknown."""
    looked_at = models.DateTimeField(null=True, blank=True)
    """The time at which the last look at the run was done."""
    called_at = models.DateTimeField(null=True, blank=True)
    """The time at which a whole analysis was last done because a look called for it."""
    called_for = models.JSONField(default=list, blank=True)
    """The rules that looks saw fire and that wait for their share of the time."""
    watched_at = models.DateTimeField(null=True, blank=True)
    """The time at which a person last had the running run's page open, to half a minute."""

    def __str__(self) -> str:
        return f"analysis of {self.run}"


class Compaction(Claimable):
    """The compaction of one node's segments. `wanted` rises when there is enough to compact."""

    node = models.OneToOneField(Node, models.CASCADE, related_name="compaction")
    charts_version = models.PositiveSmallIntegerField(default=0, db_default=0)
    """The release of charts' chunks that it has; 0 if there are none."""

    def __str__(self) -> str:
        return f"compaction of {self.node}"


class Judgement(models.Model):
    """Measurement and judgement of one rule on one run; a fired one is a finding."""

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
    claims = models.JSONField(default=list, blank=True)
    """The claims as `rules.claims.Claim`, in its order of fields."""
    waste_seconds_low = models.FloatField(default=0)
    """The time of the run that a fix gives back, without what other findings claim of it; the
    fields below are its high end and the cost at the run's price."""
    waste_seconds_high = models.FloatField(default=0)
    waste_usd_low = UsdField(null=True, blank=True)
    waste_usd_high = UsdField(null=True, blank=True)
    dedupe_key = models.CharField(max_length=200, blank=True)
    explained_by = models.CharField(max_length=64, blank=True)
    """The rule whose finding on the same run explains this one; empty if it is a cause of its
    own."""
    taken = models.JSONField(default=list, blank=True)
    """The findings that explain part of its time: rule, seconds of the run, and USD as text."""
    is_provisional = models.BooleanField(default=True)
    first_fired_at = models.DateTimeField(null=True, blank=True)
    judged_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "rule"], name="one_judgement_a_rule")]
        ordering = ["rule"]

    def __str__(self) -> str:
        return f"{self.rule} on {self.run}: {self.state}"

    @property
    def weight(self) -> tuple[Decimal, float]:
        """Return what a fix gives back, by which findings are sorted."""
        return self.waste_usd_high or Decimal(0), self.waste_seconds_high

    @property
    def own_claims(self) -> list[Claim]:
        return [Claim(tuple(labels), *numbers) for labels, *numbers in self.claims]

    @property
    def taken_words(self) -> str:
        """Return, in words, the other findings that explain part of this one's time; empty if none
        does.
        """
        found = ((rule, s, None if usd is None else Decimal(usd)) for rule, s, usd in self.taken)
        return taken_words([TakenPart(*each) for each in found])


class CostPart(models.Model):
    """The cost of one node on one UTC day; the parts of a run sum to its cost exactly."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="cost_parts")
    node = models.ForeignKey(Node, models.CASCADE, related_name="cost_parts")
    day = models.DateField()
    microseconds = models.BigIntegerField()
    usd = UsdField()
    charges = models.JSONField(null=True, blank=True)
    """The cost of each second, see `advisor.costing.charges`; null if an earlier version wrote the
    row."""
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
    """The cost; None without a price."""

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
    """The ranges as `rules.step_ranges.StepRange`, in its order of fields; times since 1970."""
    kept = models.JSONField(default=list)
    """The last number that counts, of each range."""
    blocks = models.JSONField(default=list)
    """The blocks of the steps that count, as `rules.slowdown.StepStretch`."""
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
    """The file's content as a fingerprint, hexadecimal."""
    is_loaded = models.BooleanField()
    at_us = models.BigIntegerField()
    """The time in microseconds since 1970: of the last save, or of the first load, if there were
    several."""

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
    """Life of a run, from one end of its processes to the next: how it ended, and what it cost to
    start it and to repeat its lost work. The lives of a run sum to its ledger's labels.
    """

    run = models.ForeignKey(Run, models.CASCADE, related_name="lives")
    number = models.PositiveIntegerField()
    """The life's number from 0, as `rules.lives` orders them."""
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    ending = models.CharField(max_length=16, blank=True)
    """The ending as `rules.lives.RunLife` has it."""
    node = models.ForeignKey(Node, models.CASCADE, related_name="+")
    """The first that ended; the run's last one, if none did."""
    times = models.JSONField(default=list)
    """[node's key, label, microseconds] for each of `rules.ledger.OF_LIVES`."""
    lost_us = models.BigIntegerField(default=0)
    """The lost time of GPUs, or of nodes without GPUs; `start_us` likewise."""
    lost_usd = UsdField(null=True, blank=True)
    """The cost of the work that was repeated; null without a price."""
    start_us = models.BigIntegerField(default=0)
    start_usd = UsdField(null=True, blank=True)
    """The cost of the time until the first step, and of the slower first steps; null without a
    price."""
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
    """The run that showed that the level is back; null if it is not over, or accepted."""
    is_accepted = models.BooleanField(default=False)
    change = models.FloatField()
    """The change of machine time per unit of work, as a ratio minus 1."""
    run_count = models.PositiveIntegerField()
    extra_usd = UsdField(null=True, blank=True)
    """The cost of its runs above the level before; null if none of them has a price."""
    opened_at = models.DateTimeField(default=timezone.now)
    """The time at which it was first known."""
    ended_at = models.DateTimeField(null=True, blank=True)
    """The time at which its end was first known."""

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
