"""Converts an instance type from `DescribeInstanceTypes` to a catalogue entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from advisor.pricing.gpus import gpu_model
from advisor.pricing.machine import InstanceType
from advisor.pricing.providers.aws.services import NAME

SOURCE = "ec2:DescribeInstanceTypes"
_MIB = 1024**2
_GB = 1000**3


@dataclass(frozen=True)
class _Accelerators:
    """The accelerators of a type; all empty: none."""

    vendor: str = ""
    model: str = ""
    count: int = 0
    memory_bytes: int = 0
    fraction: float = 1.0


def read_machine(entry: Mapping[str, Any], seen: date) -> InstanceType:
    """Convert one entry of the answer's `InstanceTypes`.

    Args:
        seen: the day on which AWS listed it.
    """
    processor, cores = entry.get("ProcessorInfo", {}), entry["VCpuInfo"]
    baseline, peak = _network_gbps(entry)
    ebs = entry.get("EbsInfo", {}).get("EbsOptimizedInfo", {})
    has = _accelerators(entry)
    model = gpu_model(has.model, has.memory_bytes)
    return InstanceType(
        name=entry["InstanceType"],
        vcpus=cores["DefaultVCpus"],
        physical_cores=cores.get("DefaultCores", cores["DefaultVCpus"]),
        memory_bytes=entry["MemoryInfo"]["SizeInMiB"] * _MIB,
        architecture=_architecture(processor),
        cpu_vendor=processor.get("Manufacturer", ""),
        clock_ghz=processor.get("SustainedClockSpeedInGhz"),
        gpu_vendor=has.vendor,
        gpu_model=has.model,
        gpu_key=model.key if model else "",
        gpu_count=has.count,
        gpu_memory_bytes=has.memory_bytes,
        gpu_fraction=has.fraction,
        network_gbps=peak,
        network_baseline_gbps=baseline,
        efa=bool(entry.get("NetworkInfo", {}).get("EfaSupported")),
        local_nvme_bytes=entry.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0) * _GB,
        ebs_baseline_mbps=ebs.get("BaselineBandwidthInMbps"),
        ebs_max_mbps=ebs.get("MaximumBandwidthInMbps"),
        first_seen=seen,
        last_seen=seen,
        source=SOURCE,
        provider=NAME,
    )


def _architecture(processor: Mapping[str, Any]) -> str:
    known = processor.get("SupportedArchitectures", [])
    return next((name for name in ("x86_64", "arm64") if name in known), "")


def _network_gbps(entry: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the baseline and the peak of all network cards together."""
    cards = entry.get("NetworkInfo", {}).get("NetworkCards", [])
    return _sum(cards, "BaselineBandwidthInGbps"), _sum(cards, "PeakBandwidthInGbps")


def _sum(cards: list[dict[str, Any]], name: str) -> float | None:
    known = [card[name] for card in cards if name in card]
    return round(sum(known), 3) if known else None


def _accelerators(entry: Mapping[str, Any]) -> _Accelerators:
    """Return the accelerators. NVIDIA and AMD are listed as GPUs, Trainium and Inferentia as Neuron
    devices, Gaudi and the first Inferentia as inference accelerators.
    """
    gpus = entry.get("GpuInfo", {}).get("Gpus", [])
    neuron = entry.get("NeuronInfo", {}).get("NeuronDevices", [])
    others = entry.get("InferenceAcceleratorInfo", {}).get("Accelerators", [])
    accelerators = [*gpus, *neuron, *others]
    if not accelerators:
        return _Accelerators()
    first = accelerators[0]
    memory_mib = first.get("MemoryInfo", {}).get("SizeInMiB", 0)
    return _Accelerators(
        vendor=first.get("Manufacturer") or "AWS",
        model=first.get("Name", ""),
        count=first.get("Count") or first.get("LogicalGpuCount") or 0,
        memory_bytes=memory_mib * _MIB,
        fraction=first.get("GpuPartitionSize") or 1.0,
    )
