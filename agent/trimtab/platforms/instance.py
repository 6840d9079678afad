"""The facts about a machine that determine its price."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Instance:
    """Instance with the names of `wire.NodeFacts`; empty or 0 means not known."""

    provider: str
    service: str
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    purchase_option: str = ""
    owns_machine: bool = False
    instance_started_at_ns: int = 0
