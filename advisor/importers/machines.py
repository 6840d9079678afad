"""Divides the machines of a job, as its platform describes them, among what was recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice, repeat

from advisor.importers.stated_facts import MachineGroup
from advisor.importers.storing import StoredNode
from advisor.pricing.catalogue import catalogue
from rules.wording import write_count

MOST_MACHINES = 500
_MOST_NAMED = 5
"""SageMaker's limit of a job's groups."""
_GPU = re.compile(r"gpu\d+\.busy_pct")
_CORE = re.compile(r"cpu\d+\.busy_pct")
_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Division:
    """The instance type of each machine.

    Attributes:
        recorded: by node, in the order in which the nodes were given.
        unrecorded: name and instance type of the other machines.
        is_at_least: the job had more machines than these.
        notes: sentences about what was assumed.
    """

    recorded: tuple[str, ...]
    unrecorded: tuple[tuple[str, str], ...] = ()
    is_at_least: bool = False
    notes: tuple[str, ...] = ()


def seen_gpus(node: StoredNode) -> int:
    """Return how many GPUs have samples."""
    return sum(_GPU.fullmatch(name) is not None for name in node.series)


def seen_cores(node: StoredNode) -> int:
    """Return how many cores have samples."""
    return sum(_CORE.fullmatch(name) is not None for name in node.series)


def assign_machine_types(groups: Sequence[MachineGroup], nodes: Sequence[StoredNode]) -> Division:
    """Give each recorded node the type of the group that it fits best. The rest of the groups are
    machines of which there is no recording.

    More nodes than machines are of the first group's type.
    """
    left = {place: group.count for place, group in enumerate(groups)}
    types: dict[str, str] = {}
    for node in sorted(nodes, key=_in_order):
        free = [place for place, number in left.items() if number is None or number > 0]
        best = max(free, key=lambda place: _fit(node, groups[place]), default=0)
        types[node.name] = groups[best].instance_type
        left[best] = None if left[best] is None else max((left[best] or 0) - 1, 0)
    missing = sum(number or 0 for number in left.values())
    rest = (repeat(groups[place].instance_type, number or 0) for place, number in left.items())
    kept = list(islice(chain.from_iterable(rest), max(MOST_MACHINES - len(nodes), 0)))
    names = _free_names({node.name for node in nodes})
    return Division(
        recorded=tuple(types[node.name] for node in nodes),
        unrecorded=tuple(zip(names, kept, strict=False)),
        is_at_least=missing > 0,
        notes=tuple(_notes(groups, len(nodes), missing, len(kept))),
    )


def _fit(node: StoredNode, group: MachineGroup) -> tuple[bool, bool]:
    known = catalogue().get(group.instance_type)
    if known is None:
        return False, False
    gpus = max(seen_gpus(node), node.gpus, len(node.machine.gpus))
    return (known.gpu_count > 0) == (gpus > 0), known.vcpus == seen_cores(node)


def _in_order(node: StoredNode) -> list[tuple[int, str]]:
    """Return `algo-2` before `algo-10`."""
    parts = _NUMBERS.split(node.name)
    return [(int(part[:18]) if part.isdecimal() else 0, part) for part in parts]


def _free_names(taken: set[str]) -> Iterator[str]:
    """Yield the names that SageMaker gives a job's machines, without those taken."""
    return (name for number in count(1) if (name := f"algo-{number}") not in taken)


def _notes(groups: Sequence[MachineGroup], recorded: int, missing: int, kept: int) -> Iterator[str]:
    known = all(group.count is not None for group in groups)
    named = [f"{group.count} x {group.instance_type}" for group in groups[:_MOST_NAMED]]
    machines = " and ".join([*named, "others"] if len(groups) > len(named) else named)
    total = sum(group.count or 0 for group in groups)
    if known and total != recorded:
        had = write_count(total, "machine")
        yield f"The job had {had} ({machines}); the files are of {recorded}."
    if missing:
        yield (
            "The machines without a recording are in the cost. What they did isn't known, so the "
            "job cost at least this."
        )
    if missing > kept:
        yield f"The cost is that of {recorded + kept:,} machines, the most that a run can have."
    if len({group.instance_type for group in groups}) > 1:
        yield (
            "The description doesn't say which machine is of which type. They are matched by their "
            "GPUs and cores, else in order; the sum is the same."
        )
