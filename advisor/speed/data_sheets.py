"""A GPU as the speed model sees it: its data sheet, and the share of it that a MIG slice has."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache

from advisor.pricing.gpus import GpuModel, gpu_model

FP32, TF32, HALF = "fp32", "tf32", "half"
PRECISION_CLASSES = (FP32, TF32, HALF)
_CLASS_OF = {
    "fp32": FP32, "float32": FP32, "32": FP32, "32-true": FP32,
    "fp32/tf32": TF32, "tf32": TF32,
    "fp16": HALF, "float16": HALF, "bf16": HALF, "bfloat16": HALF, "fp8": HALF, "mixed": HALF,
    "amp": HALF, "half": HALF, "16-mixed": HALF, "bf16-mixed": HALF, "16": HALF,
}  # fmt: skip
MODERN = 8.0
"""The compute capability from which on trainings in half precision keep up with the tensor cores
(Ampere). Between older GPUs, public measurements follow the FP32 rate."""
_SLICE = re.compile(
    r"(?P<board>.+?)[/ :](?:mig[-_]?)?(?P<compute>\d)g(?:\.(?P<memory>\d+)gb)?", re.I
)
_MEMORY_SHARES = {7: 1.0, 4: 0.5, 3: 0.5, 2: 0.25, 1: 0.125}
"""The memory shares of a board with seven slices, if the profile doesn't say its memory."""
_SYNONYMS = {"A100-40": "A100-40-SXM", "A100-80": "A100-80-SXM"}


@dataclass(frozen=True)
class DataSheet:
    """Rates are natural logarithms: TFLOPS and GB/s."""

    gpu: str
    family: str
    """The chip generation: the compute capability, else the architecture."""
    log_fp32: float
    log_peaks: tuple[float, float, float]
    """The peak rate of each precision class."""
    log_bandwidth: float
    compute_share: float = 1.0
    memory_share: float = 1.0
    """The share of the board; less than 1 on a MIG slice."""

    @property
    def log_ratio(self) -> float:
        """Return the plain data-sheet speed: the geometric mean of FP32 rate and bandwidth."""
        return (self.log_fp32 + self.log_bandwidth) / 2

    @property
    def share(self) -> float:
        """Return the board's share of a slice, by the same geometric mean."""
        return math.sqrt(self.compute_share * self.memory_share)

    @property
    def is_modern(self) -> bool:
        return self.family.replace(".", "").isdigit() and float(self.family) >= MODERN

    def is_faster_at(self, place: int) -> bool:
        """Return whether the precision class at that place has a rate above that of FP32."""
        return self.log_peaks[place] > self.log_fp32


def plain_log_ratio(here: DataSheet, there: DataSheet, precision: str) -> float:
    """Return the speed of `there` over `here` by their data sheets alone.

    Bandwidth and computing rate count half each. The rate is that of FP32; in half precision, if
    both compute that faster and one of them is modern, the geometric mean of both rates.
    """
    place = PRECISION_CLASSES.index(precision_class(precision))
    plain = there.log_ratio - here.log_ratio
    both = here.is_faster_at(place) and there.is_faster_at(place)
    if precision_class(precision) != HALF or not both or not (here.is_modern or there.is_modern):
        return plain
    tensor = there.log_peaks[place] - here.log_peaks[place]
    fp32 = there.log_fp32 - here.log_fp32
    return plain + (tensor - fp32) / 4


def precision_class(precision: str) -> str:
    """Return the class. An unknown precision counts as FP32 with TF32 where the GPU has it:
    frameworks' default.
    """
    return _CLASS_OF.get(precision.strip().lower(), TF32)


@cache
def data_sheet(gpu: str) -> DataSheet | None:
    """Return the data sheet of a key (`T4`), a MIG slice (`A100-40-SXM/mig3g`, `A100-40-SXM
    3g.20gb`), half a board (`MI250/2`), or a driver's name; None if the bundled table lacks it or
    its rates.
    """
    piece = _SLICE.fullmatch(gpu.strip())
    if piece:
        return _slice(gpu, piece)
    board, _, parts = gpu.strip().partition("/")
    model = gpu_model(_SYNONYMS.get(board, board).replace("A100-?-", "A100-40-"))
    if model is None or (parts and not parts.isdigit()):
        return None
    return _sheet(gpu, model, 1 / max(int(parts or 1), 1))


def _sheet(gpu: str, model: GpuModel, part: float = 1.0) -> DataSheet | None:
    if not model.fp32_tflops or not model.bandwidth_gb_per_second:
        return None
    fp32 = model.fp32_tflops
    tf32 = model.tf32_tensor_tflops or fp32
    half = model.fp16_tensor_tflops or model.bf16_tflops or fp32
    return DataSheet(
        gpu=gpu if part != 1 else model.key,
        family=model.compute_capability or model.architecture,
        log_fp32=math.log(fp32 * part),
        log_peaks=(math.log(fp32 * part), math.log(tf32 * part), math.log(half * part)),
        log_bandwidth=math.log(model.bandwidth_gb_per_second * part),
    )


def _slice(gpu: str, piece: re.Match[str]) -> DataSheet | None:
    model = gpu_model(_SYNONYMS.get(piece["board"], piece["board"]))
    sheet = _sheet(gpu, model) if model else None
    if model is None or sheet is None or not model.mig_profiles:
        return None
    most = max(int(profile[0]) for profile in model.mig_profiles)
    compute = int(piece["compute"])
    if not 0 < compute <= most:
        return None
    memory = float(piece["memory"]) / model.memory_gb if piece["memory"] else None
    usual = _MEMORY_SHARES.get(compute, 1.0) if most == 7 else compute / most
    return DataSheet(
        **(
            sheet.__dict__
            | {"compute_share": compute / most, "memory_share": min(memory or usual, 1.0)}
        )
    )
