"""The operations that a run computed, and their share of its GPUs' peak.

Model FLOPs utilisation (MFU) is the share of the data sheet's dense peak, for the numbers in which
the run computes, that its forward and backward passes took, over all of the time that the GPUs were
held (Chowdhery et al., PaLM, 2022, appendix B). What checkpointing computes again is no part of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.pricing.gpus import GpuModel, gpu_model
from advisor.work_done import made_steps
from rules.frame import NodeFrame, RunFrame
from rules.ledger import held_microseconds
from rules.training_loop import events_of

COUNTED, FORMULA = "counted", "formula"
_TERA = 1e12
_ALIKE = 0.1
"""Steps whose counts differ more than this, by sample or by step, aren't all like their mean."""
Floats = NDArray[np.float64]
Rank = tuple[str, Any]


@dataclass(frozen=True)
class ModelFlops:
    """The floating-point operations of a run's training steps. None: not known."""

    parameters: int | None = None
    """The parameters of the whole model."""
    flops: float | None = None
    """Forward and backward, over all ranks."""
    recomputed_flops: float | None = None
    """The operations that were computed again because activations weren't kept."""
    source: str = ""
    """`counted`, or `formula`: 6 for each parameter and token; empty: not known."""
    is_at_least: bool = False
    """True if some operations weren't counted."""
    gpu: str = ""
    """The model of its GPUs; empty: it has none."""
    precision: str = ""
    """The numbers in which products are computed: `bfloat16`, `float16`, `TF32` or `float32`."""
    peak_flops: float | None = None
    """The operations that the GPUs could have computed in the time that they were held."""
    unknown: str = ""
    """The reason why the utilisation isn't known, as a clause."""
    mfu: float | None = None
    """The model FLOPs utilisation, 0..1."""
    hfu: float | None = None
    """The hardware FLOPs utilisation, 0..1: with what was recomputed."""

    @property
    def mfu_words(self) -> str:
        """Return the utilisation, or that it is unknown: `at least 6.0 %`."""
        if self.mfu is None:
            return "unknown"
        return f"{'at least ' * self.is_at_least}{100 * self.mfu:.1f} %"

    @property
    def source_words(self) -> str:
        """Return what the utilisation is measured by, or why it is unknown."""
        if self.mfu is None:
            return self.unknown
        by = "counted" if self.source == COUNTED else "by 6 × parameters × tokens"
        return f"of {self.gpu}'s {self.precision} peak, {by}"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Return name and value of what is known, for people."""
        found = []
        at_least = "at least " * self.is_at_least
        if self.parameters is not None:
            found.append(("Parameters", f"{self.parameters:,}"))
        if self.flops is not None:
            computed = f"{at_least}{_flops_words(self.flops)}, forward and backward"
            found.append(("Computed", computed))
        if self.recomputed_flops:
            found.append(("Recomputed", f"{at_least}{_flops_words(self.recomputed_flops)}"))
        if self.gpu:
            found.append(("MFU", f"{self.mfu_words}: {self.source_words}"))
        if self.gpu and self.recomputed_flops and self.hfu is not None:
            hfu = f"{at_least}{100 * self.hfu:.1f} %, with what was recomputed"
            found.append(("HFU", hfu))
        return found


def model_flops(frame: RunFrame, training: pd.DataFrame) -> ModelFlops | None:
    """Return what the run computed; None if its steps aren't those of PyTorch under the hook."""
    told = _last_told(frame, "parameters")
    counted = _counts(frame)
    made = made_steps(frame, training)
    if (not told and not counted) or not len(made):
        return None
    work = _Work.from_ranks(made, counted, told)
    peak = _Peak.from_frame(frame)
    unknown = work.unknown or peak.unknown
    if not unknown and work.flops > peak.flops:
        unknown = "more was counted than the GPUs can compute"
    is_counted = work.source == COUNTED
    return ModelFlops(
        parameters=_whole(told, "total"),
        flops=None if work.unknown else work.flops,
        recomputed_flops=work.recomputed if is_counted else None,
        source=work.source,
        is_at_least=any(each["at_least"] for counts in counted.values() for each in counts),
        gpu=peak.gpu,
        precision=peak.precision,
        peak_flops=None if peak.unknown else peak.flops,
        unknown=unknown,
        mfu=None if unknown else work.flops / peak.flops,
        hfu=None if unknown or not is_counted else (work.flops + work.recomputed) / peak.flops,
    )


def _counts(frame: RunFrame) -> dict[Rank, list[dict[str, Any]]]:
    found = defaultdict(list)
    for key, node in frame.nodes.items():
        for _, data in events_of(node, "flops"):
            if all(_whole(data, name) is not None for name in ("forward", "backward")):
                found[key, data.get("rank")].append(data)
    return found


def _flops_words(flops: float) -> str:
    """Return `1.23 PFLOP`: three digits, with the largest unit that has one before the point."""
    units = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))
    size, prefix = next(each for each in units if flops >= each[0] or each[0] == 1.0)
    return f"{flops / size:.3g} {prefix}FLOP"


# Work


@dataclass(frozen=True)
class _Work:
    """The operations of all training steps, or why they aren't known."""

    flops: float = 0.0
    recomputed: float = 0.0
    source: str = ""
    unknown: str = ""

    @classmethod
    def from_ranks(
        cls,
        made: pd.DataFrame,
        counted: dict[Rank, list[dict[str, Any]]],
        told: dict[str, Any],
    ) -> _Work:
        if not counted:
            return _by_formula(made, told)
        flops = recomputed = 0.0
        for (node, rank), steps in made.groupby(["node", "rank"]):
            counts = counted.get((str(node), rank))
            if not counts:
                return cls(unknown="not every process counted a step")
            sizes = _Sizes.from_counts(counts, steps)
            if isinstance(sizes, str):
                return cls(unknown=sizes)
            useful = [each["forward"] + each["backward"] for each in counts]
            flops += sizes.total(useful)
            recomputed += sizes.total([each.get("recomputed") or 0 for each in counts])
        return cls(flops, recomputed, COUNTED)


def _by_formula(made: pd.DataFrame, told: dict[str, Any]) -> _Work:
    """Return 2 operations a parameter and token forward, 2 backward, and 2 more for each parameter
    that trains (Kaplan et al., Scaling Laws, 2020, section 2.1). Embeddings are only looked up,
    unless another layer shares them.
    """
    tokens = made["tokens"].to_numpy(dtype=float)
    total, trainable = _whole(told, "total"), _whole(told, "trainable")
    embedding = _whole(told, "embedding")
    if total is None or trainable is None or embedding is None:
        return _Work(unknown="no step was counted, and the model's parameters aren't known")
    if np.isnan(tokens).any():
        return _Work(unknown="no step was counted, and its tokens aren't known")
    unused = 0 if told.get("tied") else embedding
    each = 4 * (total - unused) + 2 * max(trainable - unused, 0)
    return _Work(float(tokens.sum()) * each, 0.0, FORMULA)


@dataclass(frozen=True)
class _Sizes:
    """The sizes that decide how much a step computes: of the counted steps, and the sum of all
    steps; a column for each part."""

    counted: Floats
    made: Floats

    @classmethod
    def from_counts(cls, counts: list[dict[str, Any]], steps: pd.DataFrame) -> _Sizes | str:
        """Return the sizes by tokens, else by samples, else by steps; or why none will do."""
        useful = np.array([each["forward"] + each["backward"] for each in counts], dtype=float)
        for sizes in (_by_length(counts, steps), _by(counts, steps, "tokens")):
            if sizes is not None:
                return sizes
        for sizes in (_by(counts, steps, "samples"), _by_steps(counts, steps)):
            if sizes is not None and _are_alike(useful / sizes.counted[:, 0]):
                return sizes
        return "its steps differ, and their sizes aren't known"

    def total(self, flops: list[float]) -> float:
        """Return the operations of all steps, by least squares over the counted ones."""
        values = np.array(flops, dtype=float)
        if self.counted.shape[1] == 1:
            return float(self.made[0] * values.sum() / self.counted[:, 0].sum())
        parts = np.linalg.lstsq(self.counted, values, rcond=None)[0]
        return float(max(self.made @ parts, 0.0))


def _by_length(counts: list[dict[str, Any]], steps: pd.DataFrame) -> _Sizes | None:
    """Return `tokens` and `tokens x length`, because attention compares each token with all of its
    text; None unless texts of two lengths were counted.
    """
    tokens, samples = _column(counts, "tokens"), _column(counts, "samples")
    made_tokens, made_samples = (steps[name].to_numpy(float) for name in ("tokens", "samples"))
    if not all(_are_known(each) for each in (tokens, samples, made_tokens, made_samples)):
        return None
    lengths = tokens / samples
    if len(np.unique(np.round(lengths, 6))) < 2:
        return None
    made = np.array([made_tokens.sum(), (made_tokens * made_tokens / made_samples).sum()])
    return _Sizes(np.stack([tokens, tokens * lengths], axis=1), made)


def _by(counts: list[dict[str, Any]], steps: pd.DataFrame, unit: str) -> _Sizes | None:
    counted, made = _column(counts, unit), steps[unit].to_numpy(dtype=float)
    if not _are_known(counted) or not _are_known(made):
        return None
    return _Sizes(counted[:, None], np.array([made.sum()]))


def _by_steps(counts: list[dict[str, Any]], steps: pd.DataFrame) -> _Sizes:
    return _Sizes(np.ones((len(counts), 1)), np.array([steps["count"].to_numpy(float).sum()]))


def _column(counts: list[dict[str, Any]], name: str) -> Floats:
    return np.array([each.get(name) or np.nan for each in counts], dtype=float)


def _are_known(values: Floats) -> bool:
    return bool((values > 0).all())


def _are_alike(values: Floats) -> bool:
    return bool(values.max() <= values.min() * (1 + _ALIKE))


# GPUs


@dataclass(frozen=True)
class _Peak:
    """The operations that the GPUs could have computed, or why that isn't known."""

    flops: float = 0.0
    gpu: str = ""
    precision: str = ""
    unknown: str = ""

    @classmethod
    def from_frame(cls, frame: RunFrame) -> _Peak:
        precision = _precision(frame)
        gpus = [(node, gpu) for node in frame.nodes.values() for gpu in node.hardware.gpus]
        held = [(node, gpu) for node, gpu in gpus if gpu.allocated]
        if not held:
            return cls(precision=precision, unknown="the run has no GPU")
        if any(_has_slices(node) for node, _ in held):
            return cls(0.0, held[0][1].model, precision, "a GPU is divided into MIG slices")
        models = {gpu_model(gpu.model, gpu.memory_bytes) for _, gpu in held}
        names = sorted({gpu.model for _, gpu in held})
        if len(models) > 1:
            together = ", ".join(names)
            return cls(0.0, together, precision, f"its GPUs differ: {together}")
        model = models.pop()
        if model is None:
            return cls(0.0, names[0], precision, f"the data sheet of {names[0]} isn't known")
        if not precision:
            return cls(0.0, model.product, "", "the numbers in which it computes aren't known")
        rate = _tera_flops(model, precision)
        if rate is None:
            unknown = f"the data sheet of {model.product} has no rate for {precision}"
            return cls(0.0, model.product, precision, unknown)
        held_us = sum(
            end - start for node, _ in held for start, end in held_microseconds(node, frame)
        )
        return cls(rate * _TERA * held_us / 1e6, model.product, precision)


def _has_slices(node: NodeFrame) -> bool:
    return any(".mig" in str(name) for name in node.samples.columns)


def _tera_flops(model: GpuModel, precision: str) -> float | None:
    """Return the dense peak; GPUs without TF32 compute in float32 where it is allowed."""
    return {
        "bfloat16": model.bf16_tflops,
        "float16": model.fp16_tensor_tflops,
        "TF32": model.tf32_tensor_tflops or model.fp32_tflops,
        "float32": model.fp32_tflops,
    }.get(precision)


def _precision(frame: RunFrame) -> str:
    """Return in which numbers products are computed, as a rank told it last; empty: not known.

    Convolutions of float32 may use TF32 where products don't.
    """
    told = _last_told(frame, "precision")
    for kind in (told.get("amp"), told.get("parameters")):
        if kind in ("bfloat16", "float16"):
            return str(kind)
    if (told.get("amp"), told.get("parameters")) != ("off", "float32"):
        return ""
    convolves = _last_told(frame, "memory_format").get("convolutions")
    uses_tf32 = told.get("tf32") or (told.get("cudnn_tf32") and convolves)
    return "TF32" if uses_tf32 else "float32"


def _last_told(frame: RunFrame, kind: str) -> dict[str, Any]:
    told: Iterable[tuple[float, dict[str, Any]]] = (
        each for node in frame.nodes.values() for each in events_of(node, kind)
    )
    return max(told, key=lambda each: each[0], default=(0.0, {}))[1]


def _whole(data: dict[str, Any], name: str) -> int | None:
    value = data.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
