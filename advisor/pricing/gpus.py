"""GPU models, from the vendors' data sheets."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType

from advisor.pricing.bundled import TABLES

GB = 1000**3
_NOISE = re.compile(r"nvidia|tesla|geforce|quadro|amd|instinct|graphics|hbm\d*e?|gddr\w+|server")
_HARMLESS = re.compile(r"\d+gb|rtx|pcie|sxm|generation|oam")
_MEMORY = re.compile(r"(\d{1,6})\s*gb")
_MEMORY_TOLERANCE = 0.12
"""A driver reports up to a tenth less memory than the data sheet (22.9 of 24 GB: ECC, reserve)."""


@dataclass(frozen=True)
class GpuModel:
    """One GPU or accelerator. None: the data sheet doesn't say.

    TFLOPS are dense (without sparsity). Tensor rates are those of the tensor cores.
    """

    key: str
    vendor: str
    product: str
    architecture: str
    compute_capability: str
    multiprocessors: int | None
    fp32_tflops: float | None
    tf32_tensor_tflops: float | None
    fp16_tensor_tflops: float | None
    bf16_tflops: float | None
    fp8_tflops: float | None
    memory_bytes: int
    memory_kind: str
    bandwidth_gb_per_second: float | None
    nvlink_gb_per_second: float | None
    tdp_watts: float | None
    mig_profiles: tuple[str, ...]
    aws_name: str
    note: str
    """Particularities, or what isn't verified."""
    source: str

    @property
    def memory_gb(self) -> float:
        """Return the size as data sheets count it: in billions of bytes."""
        return self.memory_bytes / GB


@cache
def gpu_models() -> MappingProxyType[str, GpuModel]:
    """Return the bundled table, by key."""
    with (TABLES / "gpus.csv").open(newline="", encoding="utf-8") as lines:
        return MappingProxyType({line["key"]: _model(line) for line in csv.DictReader(lines)})


@lru_cache(maxsize=1024)
def gpu_model(name: str, memory_bytes: int = 0) -> GpuModel | None:
    """Return the model that a driver (`NVIDIA A100-SXM4-40GB`) or a provider (`A100`) names.

    Args:
        memory_bytes: those of one GPU, which decides between models of one name; 0: not known.

    Returns:
        None if no model or several models match, because a wrong one would be worse.
    """
    if name in gpu_models():
        return gpu_models()[name]
    wanted = _words(name)
    fitting = [
        model
        for model in gpu_models().values()
        if wanted and _fits(model, wanted, memory_bytes) and _has_memory_kind(model, name)
    ]
    exact = [model for model in fitting if wanted in _names(model)]
    chosen = exact if len(exact) == 1 else fitting
    return chosen[0] if len(chosen) == 1 else None


def is_named(model: GpuModel, name: str, memory_bytes: int) -> bool:
    """Return whether a provider's `name` may mean the model: `H100` may be any board of an H100.

    Args:
        memory_bytes: those of one GPU, by the provider; 0: not stated.
    """
    return _fits(model, _words(name), memory_bytes)


def _fits(model: GpuModel, wanted: frozenset[str], memory_bytes: int) -> bool:
    if not any(wanted <= name or _says_the_same(wanted, name) for name in _names(model)):
        return False
    if not memory_bytes:
        return True
    return abs(memory_bytes / model.memory_bytes - 1) <= _MEMORY_TOLERANCE


def _says_the_same(wanted: frozenset[str], name: frozenset[str]) -> bool:
    """Return whether the words contain `name`, and no words of another model, such as `ti` or
    `super`.
    """
    return name <= wanted and all(_HARMLESS.fullmatch(word) for word in wanted - name)


def _has_memory_kind(model: GpuModel, name: str) -> bool:
    """Return whether the kind of memory fits: `NVIDIA H100 80GB HBM3` is the one with HBM3, which
    only the SXM board has.
    """
    named = re.search(r"hbm\d*e?", name.lower())
    return named is None or named[0] == model.memory_kind.lower()


def _names(model: GpuModel) -> list[frozenset[str]]:
    named = (_words(text) for text in (model.key, model.product, model.aws_name))
    return [words for words in named if words]


def _words(name: str) -> frozenset[str]:
    """Return the words of a name that distinguish models: `h100`, `sxm`, `pcie`, `80gb`."""
    plain = _MEMORY.sub(r"\1gb", re.sub(r"\([^()]*\)", " ", name.lower()))
    words = re.findall(r"[a-z0-9]+", _NOISE.sub(" ", plain))
    return frozenset(re.sub(r"^sxm\d?$", "sxm", word) for word in words)


def _model(line: dict[str, str]) -> GpuModel:
    return GpuModel(
        key=line["key"],
        vendor=line["vendor"],
        product=line["product"],
        architecture=line["architecture"],
        compute_capability=line["compute_capability"],
        multiprocessors=int(line["multiprocessors"]) if line["multiprocessors"] else None,
        fp32_tflops=_number(line["fp32_tflops"]),
        tf32_tensor_tflops=_number(line["tf32_tensor_tflops"]),
        fp16_tensor_tflops=_number(line["fp16_tensor_tflops"]),
        bf16_tflops=_number(line["bf16_tflops"]),
        fp8_tflops=_number(line["fp8_tflops"]),
        memory_bytes=int(float(line["memory_gb"]) * GB),
        memory_kind=line["memory_kind"],
        bandwidth_gb_per_second=_number(line["bandwidth_gb_per_second"]),
        nvlink_gb_per_second=_number(line["nvlink_gb_per_second"]),
        tdp_watts=_number(line["tdp_watts"]),
        mig_profiles=tuple(line["mig_profiles"].split()),
        aws_name=line["aws_name"],
        note=line["note"],
        source=line["source"],
    )


def _number(text: str) -> float | None:
    return float(text) if text else None
