"""The bundled instance types of all providers, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache

from advisor.pricing.bundled import read_tables
from advisor.pricing.machine import InstanceType
from advisor.pricing.providers import machine_name

GIB = 1024**3


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
