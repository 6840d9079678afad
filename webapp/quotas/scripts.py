"""Lua that Redis carries out in one step, so that two web processes can't both use the last of a
quota.

A window is a hash of whole hours since 1970 and amounts; `before` is the sum of those before the
hour `summed`, so that most uploads needn't add them up. It covers the current hour and the 23
before it, so it depends on no midnight and no time zone. Later hours than the next one come from a
clock that ran ahead: they are forgotten.
"""

from __future__ import annotations

from pathlib import Path

HOURS = 24
KEPT_SECONDS = (HOURS + 1) * 3600
RUN_KNOWN_SECONDS = 3600
"""The nodes of a new run begin at the same time: for an hour it counts once."""
STORAGE_FULL, COUNTED_WITH_RUN, COUNTED_FAR_FROM_LIMITS = -1, -2, -3
FAR = 0.9
"""The share of a limit below which an amount counts as far from it."""

_CONSTANTS = {
    "HOURS": HOURS,
    "KEPT_SECONDS": KEPT_SECONDS,
    "RUN_KNOWN_SECONDS": RUN_KNOWN_SECONDS,
    "STORAGE_FULL": STORAGE_FULL,
    "COUNTED_WITH_RUN": COUNTED_WITH_RUN,
    "COUNTED_FAR_FROM_LIMITS": COUNTED_FAR_FROM_LIMITS,
    "FAR": FAR,
}


def read_script(name: str) -> str:
    """Return the script of a file beside this module, with the constants above defined in it."""
    constants = "".join(f"local {each} = {value}\n" for each, value in _CONSTANTS.items())
    return constants + Path(__file__).with_name(f"{name}.lua").read_text(encoding="utf-8")
