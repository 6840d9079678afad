"""The least evidence on which a told cause is a finding, the same for all of them."""

from __future__ import annotations

from rules.parameter import Parameter
from rules.rule import Values

LEAST_SECONDS = Parameter("least_seconds", "s", 5, 0, 86_400, "And from this much time", "ours")
ALONE = Parameter(
    "alone_share_pct", "%", 10, 0, 100, "Even if it is a single one, from this share", "ours"
)


def told_evidence_parameters(occurrences: str) -> tuple[Parameter, ...]:
    """Return `fewest`, `alone_share_pct` and `least_seconds`.

    Args:
        occurrences: what is counted, in words: "checkpoints".
    """
    fewest = Parameter("fewest", occurrences, 3, 1, 1e6, "Fires from this many", "ours", whole=True)
    return fewest, ALONE, LEAST_SECONDS


def is_told_enough(count: float, seconds: float, share_pct: float, values: Values) -> bool:
    """Return whether so many occurrences of so long are enough to be a finding."""
    return is_single_enough(seconds, share_pct, values) or (
        seconds >= values["least_seconds"] and count >= values["fewest"]
    )


def is_single_enough(seconds: float, share_pct: float, values: Values) -> bool:
    """Return whether a single occurrence is enough, however short the run."""
    return seconds >= values["least_seconds"] and share_pct >= values["alone_share_pct"]
