"""The GPUs that a run used, and how busy they were, from what the rules measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rules.frame import UNUSED_PCT
from rules.rule import Numbers

RULE, MEMORY_RULE = "low_gpu_utilization", "batch_size"


class MeasuredRule(Protocol):
    @property
    def rule_id(self) -> str: ...
    @property
    def numbers(self) -> Numbers: ...


@dataclass(frozen=True)
class GpuUse:
    """The use of GPUs over all nodes of a run."""

    used: int
    load: float
    """The mean utilisation of each used GPU after the start of work, summed: in whole GPUs."""
    memory_pct: float | None = None
    """The highest p95 of a GPU's memory in use, in percent; None if unknown."""

    @property
    def busy(self) -> float:
        """Return the mean utilisation of a used GPU, 0 to 1."""
        return self.load / self.used if self.used else 0.0


def gpu_use(judgements: Iterable[MeasuredRule]) -> GpuUse | None:
    """Return the use, or None if the utilisation of an allocated GPU isn't known: it may be in
    use.
    """
    by_rule = {j.rule_id: j.numbers for j in judgements}
    numbers = by_rule.get(RULE)
    if numbers is None:
        return None
    highest = numbers.by_entity("whole_run_p99_pct")
    if not highest or len(highest) < (numbers.get("gpus_count") or 0.0):
        return None
    used = [gpu for gpu, pct in highest.items() if pct > UNUSED_PCT]
    seen, idle = numbers.by_entity("seen_seconds"), numbers.by_entity("idle_seconds")
    if any(not seen.get(gpu) or gpu not in idle for gpu in used):
        return None
    load = sum(1 - min(idle[gpu] / seen[gpu], 1.0) for gpu in used)
    return GpuUse(len(used), load, _memory_pct(by_rule.get(MEMORY_RULE), used))


def _memory_pct(numbers: Numbers | None, used: Sequence[str]) -> float | None:
    known = numbers.by_entity("gpu_memory_p95_pct") if numbers else {}
    return max(known.values()) if known and known.keys() >= set(used) else None
