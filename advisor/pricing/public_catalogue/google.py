"""Google's machines with GPUs. The catalogue prices the host and its GPUs in separate lines.

A machine with built-in GPUs (a2, a3, a4, g2) costs host and GPUs together. GPUs can be attached to
N1 hosts, so each permitted pair is a machine of its own: `n1-standard-8+1xT4`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal

from advisor.pricing.providers.gcp import with_gpus
from advisor.pricing.public_catalogue.lines import CatalogueLine

_BUILT_IN = {
    "a2-highgpu": "A100",
    "a2-megagpu": "A100",
    "a2-ultragpu": "A100-80GB",
    "a3-edgegpu": "H100",
    "a3-highgpu": "H100",
    "a3-megagpu": "H100-MEGA",
    "a3-ultragpu": "H200",
    "a4-highgpu": "B200",
}
"""https://cloud.google.com/compute/docs/accelerator-optimized-machines"""
_COUNTED = re.compile(r"(a\d-[a-z]+gpu)-(\d{1,2})g(-nolssd)?")
_L4 = {"4": 1, "8": 1, "12": 1, "16": 1, "32": 1, "24": 2, "48": 4, "96": 8}
_L4_HOST = re.compile(r"g2-standard-(\d{1,2})")
_N1 = re.compile(r"n1-(standard|highmem|highcpu)-\d{1,2}")
_ATTACHED = {
    "T4": ("T4", 24),
    "P4": ("P4", 24),
    "V100": ("V100-SXM2-16", 12),
    "P100": ("P100-PCIE-16", 16),
    "K80": ("K80", 8),
}
"""Our key, and the most vCPUs of an N1 host per GPU: https://cloud.google.com/compute/docs/gpus#n1-gpus"""
_OPTIMIZED = re.compile(r"(a[2-9]|g[2-9])-.*")

NO_GPU_PRICE = "without a price of its GPUs"


def whole_machines(
    lines: Iterable[CatalogueLine], skipped: Counter[str]
) -> Iterator[CatalogueLine]:
    """Yield each machine with its GPUs. A machine whose GPUs have no price there is left out."""
    hosts: list[CatalogueLine] = []
    gpus: dict[str, list[CatalogueLine]] = defaultdict(list)
    for line in lines:
        if line.instance_type:
            hosts.append(line)
        else:
            gpus[line.zone].append(line)
    for host in hosts:
        if _OPTIMIZED.fullmatch(host.instance_type) and not host.accelerator:
            yield from _optimized(host, gpus[host.zone], skipped)
        else:
            yield host
        if _N1.fullmatch(host.instance_type):
            yield from _attached(host, gpus[host.zone])


def _optimized(
    host: CatalogueLine, gpus: Iterable[CatalogueLine], skipped: Counter[str]
) -> Iterator[CatalogueLine]:
    wanted = _built_in(host.instance_type)
    found = [gpu for gpu in gpus if (gpu.accelerator, gpu.accelerators) == wanted]
    if found:
        yield _together(host.instance_type, host, found[0])
    else:
        skipped[NO_GPU_PRICE] += 1


def _built_in(instance_type: str) -> tuple[str, Decimal] | None:
    if counted := _COUNTED.fullmatch(instance_type):
        return _BUILT_IN.get(counted[1], ""), Decimal(counted[2])
    if host := _L4_HOST.fullmatch(instance_type):
        return "L4", Decimal(_L4.get(host[1], 0))
    return None


def _attached(host: CatalogueLine, gpus: Iterable[CatalogueLine]) -> Iterator[CatalogueLine]:
    for gpu in gpus:
        key, vcpus_per_gpu = _ATTACHED.get(gpu.accelerator, ("", 0))
        if host.vcpus and host.vcpus <= vcpus_per_gpu * gpu.accelerators:
            yield _together(with_gpus(host.instance_type, int(gpu.accelerators), key), host, gpu)


def _together(name: str, host: CatalogueLine, gpu: CatalogueLine) -> CatalogueLine:
    return replace(
        host,
        instance_type=name,
        accelerator=gpu.accelerator,
        accelerators=gpu.accelerators,
        gpu_memory_bytes=gpu.gpu_memory_bytes,
        usd=_sum(host.usd, gpu.usd),
        spot_usd=_sum(host.spot_usd, gpu.spot_usd),
    )


def _sum(host: Decimal | None, gpu: Decimal | None) -> Decimal | None:
    return None if host is None or gpu is None else host + gpu
