"""The start of a run on recommended machines, as one block to paste for a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from advisor.advice.probe import COMMAND, MOST_SECONDS
from advisor.pricing.providers import machine_name

SCHEDULERS = MappingProxyType({"aws": "AWS", "slurm": "Slurm", "kubernetes": "Kubernetes"})
"""Scheduler -> its title, in the order in which they are offered."""
SPOT = "spot"
RUN = "trimtab run -- python train.py"
_NOTES = ("Check that", "Save checkpoints")
"""The beginnings of the steps of a recommendation that hold for every scheduler."""


@dataclass(frozen=True)
class Launch:
    """Machines to start a run on. A probe ends by itself."""

    instance_type: str
    node_count: int
    is_spot: bool = False
    is_probe: bool = False

    @property
    def machine(self) -> str:
        """Return the type's name outside SageMaker."""
        return machine_name(self.instance_type)

    @property
    def command(self) -> str:
        return COMMAND if self.is_probe else RUN

    @property
    def most_minutes(self) -> int | None:
        """Return the time after which to end it; None for a run."""
        return MOST_SECONDS // 60 if self.is_probe else None


def launches(change: Mapping[str, Any], configuration: Mapping[str, Any]) -> list[Launch]:
    """Return the machines that a change asks for; empty if it isn't about starting machines.

    Args:
        configuration: of the run that gave the advice, which says what the change leaves as it is.
    """
    is_spot = configuration.get("purchase_option") == SPOT
    count = int(configuration.get("node_count") or 1)
    if "probe" in change:
        return [Launch(name, count, is_spot, is_probe=True) for name in change["probe"]]
    if "instance_type" in change:
        return [Launch(change["instance_type"], int(change.get("node_count") or count), is_spot)]
    now = configuration.get("instance_type")
    return [Launch(now, count, True)] if change.get("purchase_option") == SPOT and now else []


def write_block(scheduler: str, wanted: Sequence[Launch], steps: Sequence[str] = ()) -> str:
    """Return the block for a scheduler. `steps` are those of the recommendation: what holds for
    every scheduler is kept as comments.
    """
    notes = "".join(f"# {step}\n" for step in steps if step.startswith(_NOTES))
    return notes + "\n\n".join("\n".join(_WRITERS[scheduler](each)) for each in wanted)


def _aws(launch: Launch) -> list[str]:
    if launch.instance_type.startswith("ml."):
        return _sagemaker(launch)
    spot = ["  --instance-market-options MarketType=spot \\"] if launch.is_spot else []
    limit = f"timeout {MOST_SECONDS} " if launch.is_probe else ""
    return [
        "cat > start.sh <<'END'",
        "#!/bin/sh",
        f"{limit}{launch.command}; shutdown -h now",
        "END",
        f"aws ec2 run-instances --instance-type {launch.instance_type} "
        f"--count {launch.node_count} \\",
        *spot,
        "  --instance-initiated-shutdown-behavior terminate --user-data file://start.sh",
    ]


def _sagemaker(launch: Launch) -> list[str]:
    limit = [f"    max_run={MOST_SECONDS},"] if launch.is_probe else []
    spot = ["    use_spot_instances=True,", "    max_wait=86400,"] if launch.is_spot else []
    probe = [f"# In the entry point: {COMMAND}"] if launch.is_probe else []
    return [
        *probe,
        "Estimator(",
        f'    instance_type="{launch.instance_type}",',
        f"    instance_count={launch.node_count},",
        *limit,
        *spot,
        "    # and your other arguments",
        ")",
    ]


def _slurm(launch: Launch) -> list[str]:
    limit = f" --time={launch.most_minutes}" if launch.most_minutes else ""
    spot = ["# In the partition of your spot machines: add --partition=NAME"]
    return [
        *(spot if launch.is_spot else []),
        f"sbatch --nodes={launch.node_count} --constraint={launch.machine}{limit} \\",
        f"  --wrap='srun {launch.command}'",
    ]


def _kubernetes(launch: Launch) -> list[str]:
    limit = [f"  activeDeadlineSeconds: {MOST_SECONDS}"] if launch.is_probe else []
    spot = ["        karpenter.sh/capacity-type: spot"] if launch.is_spot else []
    words = ", ".join(f'"{word}"' for word in launch.command.split())
    return [
        "# In the manifest of the Job",
        "spec:",
        f"  parallelism: {launch.node_count}",
        f"  completions: {launch.node_count}",
        *limit,
        "  template:",
        "    spec:",
        "      nodeSelector:",
        f"        node.kubernetes.io/instance-type: {launch.machine}",
        *spot,
        "      containers:",
        "        - name: train",
        f"          command: [{words}]",
    ]


_WRITERS: Mapping[str, Callable[[Launch], list[str]]] = MappingProxyType(
    {"aws": _aws, "slurm": _slurm, "kubernetes": _kubernetes}
)
