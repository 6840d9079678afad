"""Instance types: hardware and availability."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from functools import cache
from typing import Any

from advisor.pricing.bundled import read_tables
from advisor.pricing.providers import DEFAULT, machine_name

GIB = 1024**3
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
    provider: str = DEFAULT
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


class Catalogue(Mapping[str, InstanceType]):
    """Instance types by name. SageMaker's `ml.X` is the machine X."""

    def __init__(self, types: Mapping[str, InstanceType]) -> None:
        self._types = dict(types)

    def __getitem__(self, name: str) -> InstanceType:
        return self._types[machine_name(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


@cache
def catalogue() -> Catalogue:
    """Return the bundled hardware tables of all providers, and the ends that they announced."""
    ends = {line["instance_type"]: line for line in read_tables("ends.csv")}
    lines = read_tables("hardware.csv")
    return Catalogue({line["instance_type"]: _type(line, ends) for line in lines})


def _type(line: dict[str, str], ends: Mapping[str, Mapping[str, str]]) -> InstanceType:
    end = ends.get(line["instance_type"])
    return InstanceType(
        name=line["instance_type"],
        vcpus=int(line["vcpus"]),
        physical_cores=int(line["physical_cores"]),
        memory_bytes=int(float(line["memory_gib"]) * GIB),
        architecture=line["arch"],
        cpu_vendor=line["cpu_vendor"],
        clock_ghz=_number(line["clock_ghz"]),
        gpu_vendor=line["gpu_vendor"],
        gpu_model=line["gpu_model"],
        gpu_key=line["gpu_key"],
        gpu_count=int(_number(line["gpu_count"]) or 0),
        gpu_memory_bytes=int((_number(line["gpu_memory_gib_each"]) or 0) * GIB),
        gpu_fraction=_number(line["gpu_partition"]) or 1.0,
        network_gbps=_number(line["network_gbps"]),
        network_baseline_gbps=_number(line["network_baseline_gbps"]),
        efa=line["efa"] == "1",
        local_nvme_bytes=int((_number(line["local_nvme_gb"]) or 0) * 1000**3),
        ebs_baseline_mbps=_number(line["ebs_baseline_mbps"]),
        ebs_max_mbps=_number(line["ebs_max_mbps"]),
        first_seen=date.fromisoformat(line["first_seen"]),
        last_seen=date.fromisoformat(line["last_seen"]),
        source=line["source"],
        provider=line["provider"],
        is_unlisted=line["unlisted"] == "1",
        ended=date.fromisoformat(end["ended"]) if end else None,
        end_source=end["source"] if end else "",
    )


def _number(text: str) -> float | None:
    return float(text) if text else None
