"""Numbers of things and lengths of time in verdicts: one GPU is no GPUs."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable

MOST_NAMES = 8


def write_count(count: float, noun: str, plural: str = "") -> str:
    """Write a count: `1 gap`, `3 gaps`."""
    number = f"{count:.0f}" if count == round(count) else f"{count:.1f}"
    return f"{number} {noun if number == '1' else plural or noun + 's'}"


def lasting(seconds: float) -> str:
    """Write a length of time in whole seconds: `45 s`, and from a minute on as `two_units`."""
    if 0 < seconds < 0.5:
        return "less than 1 s"
    return f"{seconds:.0f} s" if round(seconds) < 60 else two_units(round(seconds))


def write_shortage(seen: float, needed: float, of: str = "") -> str:
    """Write `11 s of samples, 20 s needed`: rounded so that what is too little looks so as well.

    Args:
        of: what was seen, with its preposition.
    """
    return f"{lasting(math.floor(seen))}{f' {of}' if of else ''}, {_at_least(needed)} needed"


def _at_least(seconds: float) -> str:
    """Write a length of time like `lasting`, rounded up to the unit that is shown last."""
    whole = math.ceil(seconds)
    shown = 1 if whole < 3600 else 60 if whole < 86_400 else 3600
    return lasting(math.ceil(whole / shown) * shown)


def two_units(whole: int) -> str:
    """Write seconds, of a minute or more, in the two units that matter: `8 m 22 s`, `2 h 0 m`, `3 d
    4 h`. Pages and findings have them alike.
    """
    days, hours = divmod(whole // 3600, 24)
    minutes, rest = whole % 3600 // 60, whole % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} m" if hours else f"{minutes} m {rest} s"


def some_gpus(part: float, whole: float) -> str:
    """Write `the only GPU`, `1 of 4 GPUs`."""
    return "the only GPU" if round(whole) == 1 else f"{part:.0f} of {whole:.0f} GPUs"


def was_or_were(count: float) -> str:
    return "was" if round(count) == 1 else "were"


def range_pct(values: Iterable[float]) -> str:
    """Write `95 to 98 %`, or `98 %` if the ends look alike."""
    known = list(values)
    low, high = f"{min(known):.0f}", f"{max(known):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def name_gpus(entities: Collection[str], every: Iterable[str] = ()) -> str:
    """Write GPUs by name, with their node if there are several: `gpu0, gpu3`.

    Args:
        every: the run's GPUs.
    """
    nodes = {entity.rpartition("/")[0] for entity in (*entities, *every)}
    names = sorted(entities, key=_in_order)
    if len(nodes) == 1:
        names = [name.rpartition("/")[2] for name in names]
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def sentence(text: str) -> str:
    """Return the text with its first letter large."""
    return text[:1].upper() + text[1:]


def _in_order(entity: str) -> list[tuple[int, str]]:
    """Return a key that sorts `node-10/gpu0` behind `node-2/gpu0`."""
    parts = re.split(r"(\d+)", entity)
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]
