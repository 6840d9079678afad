"""The hardware and availability of an instance type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any

DEFAULT_PROVIDER = "aws"
"""The provider of a machine whose agent reports an instance type only."""
_DAYS = ("first_seen", "last_seen", "ended", "ran_on")
_BURSTABLE = re.compile(r"t\d.*|.*-flex")


@dataclass(frozen=True)
class InstanceType:
    """One type, as its provider describes it. None: not stated."""

    name: str
    vcpus: int
    physical_cores: int
    """0: not stated."""
    memory_bytes: int
    architecture: str
    """`x86_64` or `arm64`."""
    cpu_vendor: str
    clock_ghz: float | None
    gpu_vendor: str
    gpu_model: str
    """The model as the provider names it."""
    gpu_key: str
    """Key in `advisor.pricing.gpus`; empty: no GPU, or an unknown one."""
    gpu_count: int
    gpu_memory_bytes: int
    """The memory of each GPU."""
    gpu_fraction: float
    """1 for whole GPUs, less if the type has a slice of one."""
    network_gbps: float | None
    network_baseline_gbps: float | None
    efa: bool
    """Elastic Fabric Adapter: collectives between nodes bypass the kernel."""
    local_nvme_bytes: int
    ebs_baseline_mbps: float | None
    """Megabits per second to its volumes."""
    ebs_max_mbps: float | None
    first_seen: date
    last_seen: date
    source: str
    provider: str = DEFAULT_PROVIDER
    is_unlisted: bool = False
    """The provider's newest list lacks it. That alone doesn't tell that it can't be started: see
    `advisor.pricing.availability`."""
    ended: date | None = None
    """The day from which on it can't be started, as its provider announced; None if no end is
    known."""
    end_source: str = ""
    """The place where the end was announced."""
    ran_on: date | None = None
    """The day of the newest known run of the workspace that used its family in the region; None:
    not known, or not asked because the machine is listed."""

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def local_nvme_gb(self) -> float:
        """Return the size as providers count it: in billions of bytes."""
        return self.local_nvme_bytes / 1000**3

    @property
    def is_burstable(self) -> bool:
        """Return whether full speed is limited: by CPU credits (t3), or to 40 % of each core
        (flex).
        """
        return bool(_BURSTABLE.fullmatch(self.family))

    def to_document(self) -> dict[str, Any]:
        """Return the type for a JSON column; days as text."""
        days = {name: getattr(self, name) for name in _DAYS}
        return asdict(self) | {name: day and day.isoformat() for name, day in days.items()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> InstanceType:
        """Read what any version has stored; fields that this one doesn't have are left out."""
        names = {each.name for each in fields(cls)}
        known = {name: value for name, value in document.items() if name in names}
        days = {name: date.fromisoformat(known[name]) for name in _DAYS if known.get(name)}
        return cls(**{**known, **days})
