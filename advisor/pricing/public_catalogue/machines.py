"""Describes the machines of the public catalogue. What it doesn't state stays unknown."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date

from advisor.pricing.catalogue import GIB
from advisor.pricing.gpus import GpuModel, gpu_model, gpu_models
from advisor.pricing.machine import InstanceType
from advisor.pricing.public_catalogue.lines import CatalogueLine
from advisor.pricing.public_catalogue.offers import SOURCE

_TWO_THREADS = re.compile(r"(a2|a3|g2)-.*")
"""Google: a vCPU is one of two threads of a core (https://cloud.google.com/compute/docs/cpu-platforms)."""


def by_region(
    lines: Iterable[CatalogueLine], provider_name: str, day: date
) -> Mapping[str, list[InstanceType]]:
    """Return region -> its machines whose hardware is stated."""
    found: dict[str, dict[str, InstanceType]] = defaultdict(dict)
    for line in lines:
        described = machine(line, provider_name, day)
        if described is not None:
            found[line.region][described.name] = described
    return {region: list(machines.values()) for region, machines in found.items()}


def machine(line: CatalogueLine, provider_name: str, day: date) -> InstanceType | None:
    """Return the machine of a line; None if the line doesn't state its cores, memory and GPUs."""
    if not line.vcpus or not line.memory_gib or not line.accelerator or not line.accelerators:
        return None
    model = _model(line, provider_name)
    is_google = provider_name == "gcp" and bool(_TWO_THREADS.fullmatch(line.instance_type))
    return InstanceType(
        name=line.instance_type,
        vcpus=int(line.vcpus),
        physical_cores=int(line.vcpus) // 2 if is_google else 0,
        memory_bytes=int(line.memory_gib * GIB),
        architecture="x86_64" if is_google else "",
        cpu_vendor="",
        clock_ghz=None,
        gpu_vendor=model.vendor if model else "",
        gpu_model=line.accelerator,
        gpu_key=model.key if model else "",
        gpu_count=max(1, int(line.accelerators)),
        gpu_memory_bytes=line.gpu_memory_bytes or (model.memory_bytes if model else 0),
        gpu_fraction=min(float(line.accelerators), 1.0),
        network_gbps=None,
        network_baseline_gbps=None,
        efa=False,
        local_nvme_bytes=0,
        ebs_baseline_mbps=None,
        ebs_max_mbps=None,
        first_seen=day,
        last_seen=day,
        source=SOURCE,
        provider=provider_name,
    )


def _model(line: CatalogueLine, provider_name: str) -> GpuModel | None:
    """Return the model, or None if the GPU has several boards (an H100 is on SXM or PCIe) and the
    catalogue names none.

    Google's built-in GPUs are on SXM, which is what a plain name stands for.
    """
    name = line.accelerator.partition("-")[0]
    boards = [key for key in gpu_models() if key.partition("-")[0] == name]
    if len(boards) > 1 and provider_name != "gcp":
        return None
    return gpu_model(line.accelerator, line.gpu_memory_bytes or 0)
