"""The times when operators ran, in short cells, so that a stretch of a run can be added up.

A cell is as long as all of them together need to fit in `MOST_CELLS`: 10 ms, or that doubled some
times. The time of an operation is split exactly between the cells that it lies in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from advisor.importers.recording import Floats, Whole
from advisor.importers.trace_events import MOST_OPERATORS, OTHERS

FINEST_US = 10_000
MOST_CELLS = 100_000
"""The most cells of all operators together, as kept: 1.2 MB of JSON, 1000 cells of each of 100
operators."""
LONGEST_US, LATEST_US = 30 * 86_400e6, 2.0**62
"""A longer operation (SageMaker's jobs last 28 days at most), or one at no time that a clock shows,
is damage and left out: it would make the cells of all others long."""
LISTED = 12
"""Operators of a category that are kept apart; the others are one."""
_BATCH = 20_000
_MOST_SPREAD = 300_000
"""Cells of a batch: a few long operations have as many as all short ones."""
_MOST_HELD = 400_000
"""Cells while a recording is read: 10 MB."""
_NAME_CHARS = 200

Key = tuple[str, str, str]
"""Node, category and name."""


class OperatorTimes:
    """Times are microseconds of each node's clock, until `shift` says what to add to it."""

    def __init__(self) -> None:
        self.cell_us = FINEST_US
        self._numbers: dict[Key, int] = {}
        self._shift_us: dict[str, float] = defaultdict(float)
        self._waiting: list[tuple[int, float, float, float]] = []
        self._operator: Whole = np.zeros(0, "int64")
        self._cell: Whole = np.zeros(0, "int64")
        self._us: Floats = np.zeros(0)

    def add(
        self, node: str, category: str, name: str, start_us: float, end_us: float, sign: int = 1
    ) -> None:
        """Add one operation. `sign`: -1 takes away what another operator did within it."""
        self._waiting.append((self.number(node, category, name), start_us, end_us, sign))
        if len(self._waiting) >= _BATCH:
            self._gather()

    def number(self, node: str, category: str, name: str) -> int:
        """Return what stands for an operator in `add_all`."""
        key = node, category, name
        known = self._numbers.get(key)
        if known is not None:
            return known
        if len(self._numbers) >= MOST_OPERATORS:
            key = node, category, OTHERS
        return self._numbers.setdefault(key, len(self._numbers))

    def add_all(self, numbers: Whole, start_us: Floats, end_us: Floats, sign: int = 1) -> None:
        """Add operations, each with the number of its operator. `sign`: as of `add`."""
        for first in range(0, len(numbers), _BATCH):
            part = slice(first, first + _BATCH)
            signs = np.full(len(numbers[part]), float(sign))
            self._spread(numbers[part], start_us[part], end_us[part], signs)

    def shift(self, node: str, by_us: float) -> None:
        """Move a node's clock."""
        self._shift_us[node] += by_us

    def document(self) -> dict[str, Any]:
        """Return, as JSON, `cell_us`, and of each operator the cells in which it ran, counted from
        `start_us` (Unix), with the microseconds in each.
        """
        self._gather()
        self._add_up()
        self._keep_most_expensive()
        while len(self._cell) > MOST_CELLS:
            self._coarsen()
        keys, kept = list(self._numbers), np.round(self._us) > 0
        numbers, cells, us = self._operator[kept], self._cell[kept], self._us[kept]
        parts = np.flatnonzero(np.diff(numbers)) + 1
        operators = [
            self._row(keys[number[0]], cell, spent)
            for number, cell, spent in zip(
                *(np.split(each, parts) for each in (numbers, cells, us)), strict=True
            )
            if len(number)
        ]
        return {"cell_us": self.cell_us, "operators": operators}

    def _row(self, key: Key, cells: Whole, us: Floats) -> dict[str, Any]:
        node, category, name = key
        start_us = int(cells[0]) * self.cell_us + round(self._shift_us[node])
        return {
            "node": node,
            "category": category,
            "name": name[:_NAME_CHARS],
            "start_us": start_us,
            "cells": (cells - cells[0]).tolist(),
            "us": np.round(us).astype("int64").tolist(),
        }

    def _gather(self) -> None:
        if self._waiting:
            number, start_us, end_us, sign = np.array(self._waiting, dtype="float64").T
            self._waiting = []
            self._spread(number.astype("int64"), start_us, end_us, sign)

    def _spread(self, number: Whole, start_us: Floats, end_us: Floats, sign: Floats) -> None:
        """Split each operation between the cells that it lies in."""
        sound = (np.abs(start_us) < LATEST_US) & (end_us - start_us <= LONGEST_US)
        number, sign = number[sound], sign[sound]
        start_us, end_us = start_us[sound], end_us[sound]
        first, count = self._reach(start_us, end_us)
        while int(count.sum()) > _MOST_SPREAD:
            self._coarsen()
            first, count = self._reach(start_us, end_us)
        each = np.repeat(np.arange(len(number)), count)
        place = np.arange(len(each)) - np.repeat(np.cumsum(count) - count, count)
        cell = first[each] + place
        begins = cell * float(self.cell_us)
        inside = np.minimum(end_us[each], begins + self.cell_us) - np.maximum(
            start_us[each], begins
        )
        self._hold(number[each], cell, sign[each] * np.maximum(inside, 0))

    def _reach(self, start_us: Floats, end_us: Floats) -> tuple[Whole, Whole]:
        """Return the first cell of each operation, and how many cells it lies in."""
        first: Whole = np.floor_divide(start_us, self.cell_us).astype("int64")
        last: Whole = np.floor_divide(end_us, self.cell_us).astype("int64")
        return first, last - first + 1

    def _hold(self, number: Whole, cell: Whole, us: Floats) -> None:
        self._operator = np.concatenate((self._operator, number))
        self._cell = np.concatenate((self._cell, cell))
        self._us = np.concatenate((self._us, us))
        if len(self._cell) > _MOST_HELD:
            self._add_up()
            # By half at least, so that most batches need no sorting.
            while len(self._cell) > _MOST_HELD // 2:
                self._coarsen()

    def _coarsen(self) -> None:
        self.cell_us *= 2
        self._cell //= 2
        self._add_up()

    def _add_up(self) -> None:
        """Add up to one row for each operator and cell, in their order."""
        order = np.lexsort((self._cell, self._operator))
        number, cell = self._operator[order], self._cell[order]
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (np.diff(number) != 0) | (np.diff(cell) != 0)
        first = np.flatnonzero(is_new)
        self._us = np.add.reduceat(self._us[order], first) if len(first) else np.zeros(0)
        self._operator, self._cell = number[first], cell[first]

    def _keep_most_expensive(self) -> None:
        """Keep so many of each category, over all nodes; the others of a node and category become
        one.
        """
        keys = list(self._numbers)
        spent: dict[tuple[str, str], float] = defaultdict(float)
        for key, us in zip(keys, _sums(self._operator, self._us, len(keys)), strict=True):
            spent[key[1:]] += us
        kept = _most(spent)
        renamed = [
            self._numbers.setdefault((node, category, OTHERS), len(self._numbers))
            if (category, name) not in kept
            else self._numbers[node, category, name]
            for node, category, name in keys
        ]
        if renamed:
            self._operator = np.array(renamed)[self._operator]
            self._add_up()


def _sums(number: Whole, us: Floats, count: int) -> Sequence[float]:
    sums: list[float] = np.bincount(number, us, minlength=count).tolist()
    return sums


def _most(spent: Mapping[tuple[str, str], float]) -> set[tuple[str, str]]:
    """Return category and name of those that took the most time of their category."""
    by_category: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in sorted(spent, key=lambda key: -spent[key]):
        by_category[key[0]].append(key)
    return {key for own in by_category.values() for key in _first(own)}


def _first(own: Sequence[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """Return the operators to keep. A single one that would be left over keeps its name."""
    return own if len(own) <= LISTED + 1 else own[:LISTED]
