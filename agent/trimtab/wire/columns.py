"""Columns of numbers, each in the shortest of three shapes.

`[v, ...]`, `{"k": v, "n": n}` for a constant, `{"d": [first, delta, ...]}` for whole numbers.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

from trimtab.wire.segment import Number

_MISSING = type(None)
_NUMBERS = {int, float, _MISSING}
"""The types of values; booleans are none."""
_MOST = 2**63
_MOST_DELTA = 2 * _MOST
"""The largest difference between two values that fit. It is checked before any sum, which might
take much memory."""


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
    """Return the values of a column in any of its shapes, or None if it isn't one."""
    if isinstance(raw, dict):
        return _constant(raw, at_most) if "k" in raw else _from_deltas(raw.get("d"), at_most)
    if not isinstance(raw, list) or len(raw) > at_most:
        return None
    kinds = set(map(type, raw))
    if not kinds <= _NUMBERS or (int in kinds and not _fit([v for v in raw if type(v) is int])):
        return None
    present = [v for v in raw if v is not None] if _MISSING in kinds else raw
    # A sum is finite only if each of its parts is.
    if float not in kinds or math.isfinite(sum(present)):
        return raw
    return [None if isinstance(v, float) and not math.isfinite(v) else v for v in raw]


def _constant(raw: dict[str, Any], at_most: int) -> list[Number] | None:
    value, count = raw["k"], raw.get("n")
    if type(count) is not int or not 0 <= count <= at_most:
        return None
    if type(value) not in _NUMBERS or (type(value) is int and not _fit([value])):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return [value] * count


def _from_deltas(raw: Any, at_most: int) -> list[Number] | None:
    if not isinstance(raw, list) or len(raw) > at_most:
        return None
    if not set(map(type, raw)) <= {int} or not _fit(raw, _MOST_DELTA):
        return None
    values = list(accumulate(raw))
    return values if _fit(values) else None


def _fit(values: list[int], most: int = _MOST) -> bool:
    """Return whether the values fit, by default into 64 bits."""
    return not values or (min(values) > -most and max(values) < most)


def declared_length(raw: Any) -> int:
    """Return the number of values that a column declares, or 0 if it declares none."""
    if isinstance(raw, dict):
        raw = raw.get("n") if "k" in raw else raw.get("d")
    if isinstance(raw, list):
        return len(raw)
    return max(0, raw) if type(raw) is int else 0
