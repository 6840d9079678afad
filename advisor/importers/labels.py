"""Parameters, tags and metrics that another tool kept, as a run of ours has them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from trimtab.wire import LIMITS

from advisor.importers.recording import METRIC, Happening
from advisor.importers.stated_facts import to_printable_name
from advisor.importers.tally import Tally

MOST_LABELS = 500
"""Parameters of a run, and tags; an agent may declare as many."""
_DEEPEST = 6


def metric(
    time_ms: int, name: str, value: float, step: int | None = None, rank: int = 0
) -> Happening:
    """Return a value that the training logged, as the agent and MLflow's wire store it."""
    data = {"rank": rank, "name": to_printable_name(name), "value": float(value), "step": step}
    return Happening(time_ms, METRIC, data)


def parameters_of(said: Mapping[str, Any], tally: Tally) -> dict[str, Any]:
    """Return the entries that can be parameters: nested ones as `outer.inner`, lists as text."""
    kept: dict[str, Any] = {}
    for name, value in _flat(said, "", 0):
        if not (name := to_printable_name(name)) or name in kept:
            tally.skip("parameters", "no name, or that of another one", 1, name)
        elif len(kept) >= MOST_LABELS:
            tally.skip("parameters", f"more than {MOST_LABELS}", 1, name)
        else:
            kept[name] = _scalar(value)
    tally.take("parameters", len(kept))
    return kept


def tags_of(said: Mapping[str, str], tally: Tally) -> dict[str, str]:
    """Return the entries that can be tags."""
    named = {to_printable_name(name): to_printable_name(value) for name, value in said.items()}
    kept = {name: value for name, value in list(named.items())[:MOST_LABELS] if name}
    tally.skip("tags", f"no name, that of another one, or more than {MOST_LABELS}",
               len(said) - len(kept))  # fmt: skip
    return kept


def _flat(said: Mapping[str, Any], before: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in said.items():
        if isinstance(value, dict) and value and depth < _DEEPEST:
            yield from _flat(value, f"{before}{name}.", depth + 1)
        else:
            yield f"{before}{name}", value


def _scalar(value: Any) -> Any:
    """Return the value itself if it is a short finite scalar, else its text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    try:
        said = str(value)[: LIMITS.text_chars]
    except RecursionError:
        return ""
    return "".join(char for char in said if char.isprintable())
