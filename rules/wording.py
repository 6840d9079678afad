"""Numbers of things and lengths of time in verdicts: one GPU is no GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

MOST_NAMES = 8


def counted(count: float, noun: str, plural: str = "") -> str:
    """`1 gap`, `3 gaps`."""
    number = f"{count:.3g}" if count != round(count) else f"{count:.0f}"
    return f"{number} {noun if number == '1' else plural or noun + 's'}"


def lasting(seconds: float) -> str:
    """A length of time in whole seconds: `45 s`, and from a minute on as `two_units`."""
    return f"{seconds:.0f} s" if round(seconds) < 60 else two_units(round(seconds))


def two_units(whole: int) -> str:
    """Seconds, of a minute or more, in the two units that matter: `8 m 22 s`, `2 h 0 m`,
    `3 d 4 h`. Pages and findings have them alike."""
    days, hours = divmod(whole // 3600, 24)
    minutes, rest = whole % 3600 // 60, whole % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} m" if hours else f"{minutes} m {rest} s"


def some_gpus(part: float, whole: float) -> str:
    """`the only GPU`, `1 of 4 GPUs`."""
    return "the only GPU" if round(whole) == 1 else f"{part:.0f} of {whole:.0f} GPUs"


def was(count: float) -> str:
    return "was" if round(count) == 1 else "were"


def range_pct(values: Iterable[float]) -> str:
    """`95 to 98 %`, or `98 %` if the ends look alike."""
    known = list(values)
    low, high = f"{min(known):.0f}", f"{max(known):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def named(entities: Collection[str], every: Iterable[str] = ()) -> str:
    """GPUs by name, with their node if there are several: `gpu0, gpu3`.

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
    """With its first letter large."""
    return text[:1].upper() + text[1:]


def _in_order(entity: str) -> tuple[str, int, str]:
    node, _, gpu = entity.rpartition("/")
    number = gpu.removeprefix("gpu")
    return node, int(number) if number.isdigit() else 0, gpu
