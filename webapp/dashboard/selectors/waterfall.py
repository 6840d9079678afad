"""A waterfall chart of the cost difference of two runs: bars in a box of 1000 x 20."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

WIDTH = 1000
LEAST_WIDTH = 4.0
"""The least width of a visible bar."""


@dataclass(frozen=True)
class Bar:
    """Bar of the chart. `kind` is `run` for a whole cost; `less`, `more` or `same` for the effect
    of a term.
    """

    label: str
    usd: Decimal
    kind: str
    x: float
    width: float

    @property
    def is_term(self) -> bool:
        return self.kind != "run"


def waterfall(
    start: tuple[str, Decimal], terms: Iterable[tuple[str, Decimal]], end: tuple[str, Decimal]
) -> list[Bar]:
    """Return the bars of the first cost, of each term in sequence, and of the second cost."""
    spans = [(*start, Decimal(0), start[1], "run")]
    reached = start[1]
    for label, usd in terms:
        spans.append((label, usd, reached, reached + usd, _kind(usd)))
        reached += usd
    spans.append((*end, Decimal(0), end[1], "run"))
    low = min(Decimal(0), *(min(begin, stop) for _, _, begin, stop, _ in spans))
    high = max(max(begin, stop) for _, _, begin, stop, _ in spans)
    scale = WIDTH / float(high - low) if high > low else 0.0
    return [
        _bar(label, usd, kind, float(min(begin, stop) - low), float(abs(stop - begin)), scale)
        for label, usd, begin, stop, kind in spans
    ]


def _kind(usd: Decimal) -> str:
    if not usd:
        return "same"
    return "less" if usd < 0 else "more"


def _bar(label: str, usd: Decimal, kind: str, begin: float, length: float, scale: float) -> Bar:
    width = max(length * scale, LEAST_WIDTH) if length else 0.0
    x = min(begin * scale, WIDTH - width)
    return Bar(label, usd, kind, round(x, 1), round(width, 1))
