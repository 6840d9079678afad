"""A recommendation with its candidates, as the page lists them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class CandidateLine:
    """One machine that the run could go to. Costs are USD of a run; None: no price."""

    machine: str
    size: str
    is_chosen: bool
    is_present: bool
    seconds: list[float]
    """Low, middle, high."""
    usd: list[Decimal | None]
    why_not: str


@dataclass(frozen=True)
class Advice:
    row: Any
    possible: list[CandidateLine]
    rejected: list[CandidateLine]


def advice(rows: Iterable[Any], present_types: Iterable[str]) -> list[Advice]:
    """`present_types`: what the run ran on."""
    return [_advice(row, set(present_types)) for row in rows]


def _advice(row: Any, present: set[str]) -> Advice:
    lines = [_line(found, row.change, present) for found in row.candidates]
    return Advice(
        row=row,
        possible=[line for line in lines if not line.why_not],
        rejected=[line for line in lines if line.why_not],
    )


def _line(found: dict[str, Any], change: dict[str, Any], present: set[str]) -> CandidateLine:
    kind, count = found["instance_type"], found["node_count"]
    return CandidateLine(
        machine=f"{count} × {kind}",
        size=_size(found),
        is_chosen=kind == change.get("instance_type") and not found["rejected_because"],
        is_present=kind in present,
        seconds=[found[f"time_{part}_seconds"] for part in ("low", "mid", "high")],
        usd=[_usd(found[f"cost_{part}_usd"]) for part in ("low", "mid", "high")],
        why_not=found["rejected_because"],
    )


def _size(found: dict[str, Any]) -> str:
    parts = [f"{found['vcpus']} vCPU", f"{found['memory_bytes'] / 2**30:.4g} GiB"]
    if found["gpus"]:
        parts.append(f"{found['gpus']} × {found['gpu_model']}")
    return ", ".join(parts)


def _usd(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)
