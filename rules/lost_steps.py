"""Steps of a run that were done again later, as time of each of its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rules.frame import RunFrame
from rules.global_steps import NodeSteps, node_steps
from rules.rule import Window
from rules.step_ranges import (
    CountedSteps,
    StepRange,
    count_distinct_steps,
    lost_count,
    select_counted_steps,
)


@dataclass(frozen=True)
class RunSteps:
    """The numbered steps of a run's nodes, by the nodes' keys."""

    nodes: Mapping[str, NodeSteps]
    of_others: tuple[StepRange, ...] = ()
    """The steps of the other runs of its training, on the run's clock."""

    @property
    def ranges(self) -> list[StepRange]:
        return [each for steps in self.nodes.values() for each in steps.ranges]

    @property
    def is_unknown(self) -> bool:
        """Return whether some steps have no known number, so that lost work isn't fully known."""
        return any(steps.is_unknown for steps in self.nodes.values())

    @property
    def is_lost_unknown(self) -> bool:
        """Return whether some steps may have been done again without being known as lost."""
        return self.is_unknown or not all(each.is_known for each in self.kept_steps())

    @property
    def counted(self) -> int | None:
        """Return how many different steps count; None if the numbers of some are unknown."""
        if not self.ranges or self.is_lost_unknown:
            return None
        return count_distinct_steps(self.ranges, self.kept_steps())

    @property
    def lost_count(self) -> int:
        """Return the number of steps that are known to have been done again."""
        return lost_count(self.ranges, self.kept_steps())

    def kept_steps(self) -> list[CountedSteps]:
        """Return what is kept of each of `ranges`."""
        own = self.ranges
        return select_counted_steps([*own, *self.of_others])[: len(own)]

    def lost_seconds(self) -> dict[str, list[Window]]:
        """Return by node the time in steps that were done again, on any node of any attempt or
        run.
        """
        counted, windows = iter(self.kept_steps()), {}
        for key, steps in self.nodes.items():
            found = [
                steps.times_after_step(n, next(counted).last) for n in range(len(steps.ranges))
            ]
            windows[key] = [window for window in found if window is not None]
        return windows

    def undone(self, steps_later: int = 0) -> dict[str, list[Window]]:
        """Return by node the time from its first lost step, or so many steps later, to the node's
        next range of steps. What a process told then is of a state that was given up.
        """
        counted, windows = iter(self.kept_steps()), {}
        for key, steps in self.nodes.items():
            found: list[Window] = []
            ends = [each.began_us / 1e6 for each in steps.ranges[1:]] + [float("inf")]
            for n, (each, until) in enumerate(zip(steps.ranges, ends, strict=False)):
                last = next(counted).last
                if last < each.last:
                    later = steps.times_after_step(n, last + steps_later)
                    begin = later.start_seconds if later else each.ended_us / 1e6
                    found.append(Window(begin, max(until, begin)))
            windows[key] = found
        return windows


def run_steps(frame: RunFrame) -> RunSteps:
    """Return the run's steps, with those of its training's other runs, as far as the frame has
    them.
    """
    return frame.once(_run_steps)


def _run_steps(frame: RunFrame) -> RunSteps:
    nodes = {key: node_steps(node) for key, node in frame.nodes.items()}
    return RunSteps(nodes, frame.other_steps)


def shift_ranges(ranges: Sequence[StepRange], by_us: int) -> list[StepRange]:
    """Return the ranges on a clock that began so much earlier."""
    return [
        replace(each, began_us=each.began_us + by_us, ended_us=each.ended_us + by_us)
        for each in ranges
    ]
