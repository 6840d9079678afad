"""Reads what a sentence says in numbers: quantities with their unit and their last digit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
SCALES = {
    **{name: (seconds, "s") for name, seconds in SECONDS.items()},
    "%": (1.0, "%"),
    "points": (1.0, "points"),
    "percentage points": (1.0, "points"),
    "MiB": (2.0**20, "bytes"),
    "GiB": (2.0**30, "bytes"),
    "MiB/s": (2.0**20, "bytes/s"),
}
"""Unit in words -> its size, and the unit in which it is compared."""
_NUMBER = r"(?<![\w.,-])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
_UNIT = r"percentage points|points|MiB/s|MiB|GiB|[%smhd]"
_TWO_UNITS = re.compile(r"(?<![\w.,-])(\d+) ([dhm]) (\d+) ([hms])\b")
_ONE = re.compile(rf"({_NUMBER})(?: to ({_NUMBER}))?(?: ({_UNIT})(?![\w/]))?")


@dataclass(frozen=True)
class Quantity:
    """A number as it is written."""

    value: float
    digit: float
    """The size of its last digit."""
    unit: str
    """`s`, `%`, `points`, `bytes`, `bytes/s`; empty: a count, or a ratio."""
    text: str

    def may_be(self, value: float) -> bool:
        """Return whether `value`, rounded up, down or to the nearest, is written like this."""
        return abs(value - self.value) < self.digit * (1 + 1e-9) + 1e-12


def quantities(text: str, names: Iterable[str] = ()) -> list[Quantity]:
    """Return every quantity of a text, without those that are part of a name.

    Args:
        names: nodes, GPUs, ranks and metrics, whose digits are no numbers.
    """
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "it")
    found = [(match.start(), _two_units(match)) for match in _TWO_UNITS.finditer(text)]
    rest = _TWO_UNITS.sub(lambda match: "_" * len(match[0]), text)
    found += [(match.start(), each) for match in _ONE.finditer(rest) for each in _one(match)]
    return [quantity for _, quantity in sorted(found, key=lambda each: each[0])]


def _two_units(match: re.Match[str]) -> Quantity:
    much, unit, less, small = match.groups()
    value = int(much) * SECONDS[unit] + int(less) * SECONDS[small]
    return Quantity(value, SECONDS[small], "s", match[0])


def _one(match: re.Match[str]) -> Iterator[Quantity]:
    first, second, unit = match.groups()
    size, compared = SCALES[unit] if unit else (1.0, "")
    for number in (first, second):
        if number:
            mantissa, _, exponent = number.replace(",", "").partition("e")
            digit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
            value = float(number.replace(",", ""))
            yield Quantity(value * size, digit * size, compared, match[0])
