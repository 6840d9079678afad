"""The time in which a GPU's driver reduced its clocks."""

from __future__ import annotations

import pandas as pd

from rules.frame import NodeFrame

REASONS = ("thermal", "power_brake")
"""The reasons that count. The power cap doesn't: running at it is normal."""


def slowed_share(
    node: NodeFrame, number: int, reason: str, resolution_seconds: float
) -> pd.Series[float] | None:
    """Return the share of each tick in which the reason reduced the clocks; None if not known."""
    name = f"gpu{number}.throttled_{reason}_ns_total"
    nanoseconds = node.rate(name, resolution_seconds)
    return None if nanoseconds is None else nanoseconds / 1e9
