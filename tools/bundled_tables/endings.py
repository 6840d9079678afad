"""Compares price rows with a second source: which it confirms, and which it ends."""

from __future__ import annotations

import sys
from collections import defaultdict
from itertools import pairwise
from typing import Any


def say_what_confirms(prices: list[dict[str, Any]]) -> None:
    for option in ("on_demand", "spot"):
        rows = [row for row in prices if row["purchase_option"] == option]
        twice = sum(row["sources"] > 1 for row in rows)
        ended = sum(row["note"].startswith("ended") for row in rows)
        sys.stderr.write(
            f"{option}: {len(rows)} rows, {twice} seen by several sources, "
            f"{len(rows) - twice} by one, {ended} ended by another source\n"
        )


def end_with_ec2(prices: list[dict[str, Any]]) -> None:
    """A training price ends when EC2's price of the machine changes after its last confirmation.

    SageMaker's prices follow EC2's (the cut of June 2025 was announced for both), and no later
    training price was found.
    """
    changes: dict[tuple[str, str], list[tuple[dict[str, Any], dict[str, Any]]]] = defaultdict(list)
    listed = [row for row in prices if row["purchase_option"] == "on_demand"]
    for old, new in pairwise(row for row in listed if row["service"] == "ec2"):
        if _place(old) == _place(new):
            changes[_place(new)].append((old, new))
    for row in listed:
        later = [pair for pair in changes[_place(row)] if pair[1]["valid_from"] > row["last_seen"]]
        if row["service"] == "sagemaker_training" and not row["valid_to"] and later:
            old, new = later[0]
            row["valid_to"] = new["valid_from"]
            row["note"] = (
                f"ended: EC2's price of this machine changed from ${old['usd_per_hour']} to "
                f"${new['usd_per_hour']} on {new['valid_from']}"
            )


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["region"], row["instance_type"].removeprefix("ml.")
