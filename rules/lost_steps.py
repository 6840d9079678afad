"""Steps of a run that were done again later, as time of each of its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rules.frame import RunFrame
from rules.global_steps import NodeSteps, node_steps
from rules.rule import Window
from rules.step_ranges import Kept, StepRange, kept


@dataclass(frozen=True)
class RunSteps:
    """The numbered steps of a run's nodes, by the nodes' keys."""

    nodes: Mapping[str, NodeSteps]
    of_others: tuple[StepRange, ...] = ()
    """Of the other runs of its training, on the run's clock."""

    @property
    def ranges(self) -> list[StepRange]:
        return [each for steps in self.nodes.values() for each in steps.ranges]

    @property
    def is_unknown(self) -> bool:
        """Some steps have no known number, so lost work isn't fully known."""
        return any(steps.is_unknown for steps in self.nodes.values())

    def kept(self) -> list[Kept]:
        """Of each of `ranges`."""
        own = self.ranges
        return kept([*own, *self.of_others])[: len(own)]

    def lost(self) -> dict[str, list[Window]]:
        """By node: the time in steps that were done again, on any node of any attempt or run."""
        counted, windows = iter(self.kept()), {}
        for key, steps in self.nodes.items():
            found = [steps.after(n, next(counted).last) for n in range(len(steps.ranges))]
            windows[key] = [window for window in found if window is not None]
        return windows


def run_steps(frame: RunFrame, of_others: Sequence[StepRange] = ()) -> RunSteps:
    """
    Args:
        of_others: of the training's other runs; times since the start of this run.
    """
    nodes = {key: node_steps(node) for key, node in frame.nodes.items()}
    return RunSteps(nodes, tuple(of_others))


def shifted(ranges: Sequence[StepRange], by_us: int) -> list[StepRange]:
    """The ranges on a clock that began so much earlier."""
    return [
        replace(each, began_us=each.began_us + by_us, ended_us=each.ended_us + by_us)
        for each in ranges
    ]
