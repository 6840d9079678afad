"""`RunFrame`: everything a rule may look at, aligned, with gaps as NaN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

STEP_COLUMNS = (
    "rank",
    "phase",
    "start_seconds",
    "duration_seconds",
    "data_wait_seconds",
    "samples",
    "count",
)
EVENT_COLUMNS = ("time_seconds", "kind", "data")


@dataclass(frozen=True)
class GpuHardware:
    model: str
    memory_bytes: int
    allocated: bool = True


@dataclass(frozen=True)
class Hardware:
    """One node as measured; 0 is unknown."""

    instance_type: str = ""
    vcpus: int = 0
    effective_cpus: float = 0.0
    memory_bytes: int = 0
    gpus: tuple[GpuHardware, ...] = ()


@dataclass(frozen=True)
class NodeFrame:
    """One node's samples, steps and events.

    Attributes:
        samples: float64, index = seconds since the start of the run on an even grid of
            `RunFrame.resolution_seconds`, a column a series; NaN is unknown, never zero.
        steps: `STEP_COLUMNS`; a row is one step, or `count` steps with their mean duration and
            mean data wait where they were too many to keep singly. NaN data wait or samples: not measured.
        events: `EVENT_COLUMNS`, in time order; `data` is a dict.
        intervals: when this node was held, seconds since the start of the run.
    """

    key: str
    hardware: Hardware
    samples: pd.DataFrame
    steps: pd.DataFrame
    events: pd.DataFrame
    intervals: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class RunFrame:
    """A whole run, or as much of it as has arrived."""

    resolution_seconds: float
    duration_seconds: float
    final: bool
    """The run has ended and nothing is known to be missing."""
    nodes: Mapping[str, NodeFrame] = field(default_factory=dict)

    @property
    def steps(self) -> pd.DataFrame:
        """The steps of all nodes and ranks, with their node's key as column `node`."""
        parts = [node.steps.assign(node=key) for key, node in self.nodes.items() if len(node.steps)]
        if not parts:
            return pd.DataFrame(columns=[*STEP_COLUMNS, "node"])
        return pd.concat(parts, ignore_index=True)
