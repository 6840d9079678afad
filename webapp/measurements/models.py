"""Measured speeds."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import models

from advisor.pricing.providers import machine_name
from advisor.probing.loop_speed import LoopSpeed
from webapp.runs.models import Node, Run


class Measurement(models.Model):
    """The speed of one run's or probe's training loop, and what it ran on. Its job is the run's."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="measurement")
    throughput = models.FloatField()
    """`unit` per second of all processes together; `low` and `high` are an 80 % interval."""
    low = models.FloatField()
    high = models.FloatField()
    rel_sd = models.FloatField()
    unit = models.CharField(max_length=16)
    steps = models.PositiveIntegerField()
    warmup_steps = models.PositiveIntegerField()
    batch = models.FloatField(null=True)
    """Samples a step of all processes together; null if not counted."""
    precision = models.CharField(max_length=16, blank=True)
    gpu = models.CharField(max_length=64, blank=True)
    """The GPU's key in the GPU table; empty if no GPU was seen, or not one model alone."""
    gpus = models.PositiveIntegerField()
    util_pct = models.FloatField(null=True)
    gpu_memory_bytes = models.BigIntegerField(null=True)
    host_memory_bytes = models.BigIntegerField(null=True)
    data_wait_share = models.FloatField(null=True)
    pace = models.CharField(max_length=16)
    """The part that set the pace: `loader`, `gpu`, `cpu` or `unknown`."""
    machine = models.CharField(max_length=64, blank=True)
    """The machine behind the instance type of all nodes; empty if unknown, or for unequal nodes."""
    node_count = models.PositiveIntegerField(default=1)
    predicted_low = models.FloatField(null=True)
    """The speed that was predicted before a probe, as a ratio to the job's own run."""
    predicted_high = models.FloatField(null=True)

    def __str__(self) -> str:
        return f"{self.throughput:.4g} {self.unit}/s of {self.run}"

    @classmethod
    def from_run(cls, run: Run, nodes: Sequence[Node], speed: LoopSpeed) -> Measurement:
        """Return an unsaved measurement."""
        machines = {machine_name(node.instance_type) for node in nodes}
        return cls(
            run=run,
            machine=machines.pop() if len(machines) == 1 else "",
            node_count=len(nodes),
            throughput=speed.rate.value,
            low=speed.rate.low,
            high=speed.rate.high,
            rel_sd=speed.rate.rel_sd,
            **{name: getattr(speed, name) for name in _SAME_NAME},
        )


_SAME_NAME = (
    "unit",
    "steps",
    "warmup_steps",
    "batch",
    "precision",
    "gpu",
    "gpus",
    "util_pct",
    "gpu_memory_bytes",
    "host_memory_bytes",
    "data_wait_share",
    "pace",
)
