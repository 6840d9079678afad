"""The GPUs of this machine, and which of them are allocated to the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trimtab.wire import Gpu

_OLD_SLICE = re.compile(r"MIG-(GPU-[0-9a-f-]+)/\d+/\d+", re.IGNORECASE)
_VARIABLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Card:
    """One GPU, as the driver describes it."""

    model: str
    memory_bytes: int
    uuid: str
    slices: tuple[str, ...] = ()
    """The UUIDs of its MIG slices."""


class Inventory:
    """The node's GPUs by number; calls `on_list` with all of them when there are more.

    A GPU that doesn't answer is listed with the model of the others. A GPU without access (of
    another job, separated by a device cgroup) is listed as not allocated, so that the run's share
    of the machine is right.
    """

    def __init__(
        self, on_list: Callable[[list[Gpu]], None], environment: Mapping[str, str]
    ) -> None:
        self._on_list = on_list
        self._visible = [environment.get(_VARIABLE)]
        self._cards: dict[int, Card | None] = {}
        self._denied: set[int] = set()
        self._said: list[Gpu] = []

    def expect(self, number: int) -> None:
        self._cards.setdefault(number, None)

    def add(self, number: int, card: Card) -> None:
        self._cards[number] = card

    def deny(self, number: int) -> None:
        self._denied.add(number)

    def also_for(self, environment: Mapping[str, str]) -> None:
        """Add the GPUs of another command of the run: srun may give each task its own."""
        self._visible.append(environment.get(_VARIABLE))

    def say(self) -> None:
        gpus = self._gpus()
        if gpus and gpus != self._said:
            self._said = gpus
            self._on_list(gpus)

    def _gpus(self) -> list[Gpu]:
        known = next((card for card in self._cards.values() if card), None)
        if known is None:
            return []
        unknown = Card(known.model, known.memory_bytes, "")
        cards = {number: self._cards[number] or unknown for number in sorted(self._cards)}
        open_ones = {number: card for number, card in cards.items() if number not in self._denied}
        given = [allocated_cards(visible, list(open_ones.values())) for visible in self._visible]
        ours = dict(zip(open_ones, map(any, zip(*given))))
        return [
            Gpu(card.model, card.memory_bytes, card.uuid, ours.get(number, False))
            for number, card in cards.items()
        ]


def allocated_cards(visible: str | None, cards: Sequence[Card]) -> list[bool]:
    """Return which of the cards CUDA_VISIBLE_DEVICES (None: not set) allows a program to use.

    As CUDA reads it: numbers, UUIDs or beginnings of them, MIG slices; what comes after a word
    that names no device is ignored. Numbers are taken in the driver's order, which is CUDA's too
    where all GPUs are of one model, or with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    if visible is None:
        return [True] * len(cards)
    chosen = set()
    for word in visible.split(","):
        number = _number(word.strip(), cards)
        if number is None:
            break
        chosen.add(number)
    return [number in chosen for number in range(len(cards))]


def _number(word: str, cards: Sequence[Card]) -> int | None:
    if word.isdecimal():
        return int(word) if int(word) < len(cards) else None
    old = _OLD_SLICE.fullmatch(word)
    wanted = (old[1] if old else word).lower()
    if not wanted.startswith(("gpu-", "mig-")):
        return None
    matching = [
        number
        for number, card in enumerate(cards)
        if any(uuid.lower().startswith(wanted) for uuid in (card.uuid, *card.slices))
    ]
    return matching[0] if len(matching) == 1 else None
