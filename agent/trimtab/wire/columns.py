"""Columns of numbers, each in the shortest of three shapes.

`[v, ...]`, `{"k": v, "n": n}` for a constant, `{"d": [first, delta, ...]}` for whole numbers.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

from trimtab.wire.segment import Number


def encode_column(values: list[Number]) -> Any:
    values = [None if isinstance(v, float) and not math.isfinite(v) else v for v in values]
    if len(values) > 2 and values.count(values[0]) == len(values):
        return {"k": values[0], "n": len(values)}
    if all(type(value) is int for value in values):
        return {"d": _deltas(values)}  # type: ignore[arg-type]
    return values


def _deltas(values: list[int]) -> list[int]:
    return values[:1] + [b - a for a, b in zip(values, values[1:])]


def decode_column(raw: Any, at_most: int) -> list[Number] | None:
    """The values of a column in any of its shapes; None if it isn't one."""
    if isinstance(raw, dict):
        return _constant(raw, at_most) if "k" in raw else _from_deltas(raw.get("d"), at_most)
    if not isinstance(raw, list) or len(raw) > at_most:
        return None
    if not all(value is None or _is_number(value) for value in raw):
        return None
    return [None if isinstance(v, float) and not math.isfinite(v) else v for v in raw]


def _constant(raw: dict[str, Any], at_most: int) -> list[Number] | None:
    value, count = raw["k"], raw.get("n")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= at_most:
        return None
    if value is not None and not (_is_number(value) and math.isfinite(value)):
        return None
    return [value] * count


def _from_deltas(raw: Any, at_most: int) -> list[Number] | None:
    if not isinstance(raw, list) or len(raw) > at_most:
        return None
    if not all(type(value) is int and abs(value) < 2**63 for value in raw):
        return None
    values = list(accumulate(raw))
    return values if all(abs(value) < 2**63 for value in values) else None


def _is_number(value: Any) -> bool:
    if type(value) is int:
        return abs(value) < 2**63
    return isinstance(value, float)


def declared_length(raw: Any) -> int:
    """The number of values that a column declares; 0 if it declares none."""
    if isinstance(raw, dict):
        raw = raw.get("n") if "k" in raw else raw.get("d")
    if isinstance(raw, list):
        return len(raw)
    return max(0, raw) if type(raw) is int else 0
