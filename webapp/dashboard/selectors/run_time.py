"""Shows where the time of a run went, phase by phase, beside the run that it is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.runs.models import Run

BAR_WIDTH = 1000
COLOURS = {"initialise": 5, "train": 1, "evaluate": 4, "checkpoint": 6, "finalise": 3}
"""Phase -> number of its colour, in the order in which they begin."""


@dataclass(frozen=True)
class PhaseTime:
    """Seconds of a phase. `before` is that of the other run, None if it has no such figure."""

    name: str
    seconds: float
    before: float | None
    x: float
    width: float
    """The width in a bar that is BAR_WIDTH wide."""

    @property
    def colour(self) -> int:
        return COLOURS.get(self.name, 2)

    @property
    def change(self) -> float | None:
        return None if self.before is None else self.seconds - self.before

    @property
    def share(self) -> float:
        return self.width / BAR_WIDTH


@dataclass(frozen=True)
class RunTime:
    """Time of a run. `other` is the run beside it, if its phases are known."""

    phases: list[PhaseTime]
    other: Run | None

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)

    @property
    def before(self) -> float:
        return sum(phase.before or 0.0 for phase in self.phases)

    @property
    def change(self) -> float:
        return self.seconds - self.before


def run_time(run: Run, baseline: Run | None) -> RunTime:
    """Return the phases in the order of `COLOURS`, others after them by name. Stored JSON has no
    order.
    """
    own = run.summary.phase_seconds
    known = baseline.summary.phase_seconds if baseline else {}
    whole, passed, phases = sum(own.values()), 0.0, []
    for name in sorted({*own, *known}, key=_place):
        seconds = own.get(name, 0.0)
        before = known.get(name, 0.0) if known else None
        x, width = (BAR_WIDTH * part / (whole or 1.0) for part in (passed, seconds))
        phases.append(PhaseTime(name, seconds, before, round(x, 1), round(width, 1)))
        passed += seconds
    return RunTime(phases if own else [], baseline if known and own else None)


def _place(name: str) -> tuple[int, str]:
    order = list(COLOURS)
    return order.index(name) if name in order else len(order), name
