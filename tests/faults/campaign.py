"""Many schedules on one service, and what they prove together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.faults import audit
from tests.faults.agents import Told
from tests.faults.audit import Figures
from tests.faults.house import House
from tests.faults.kinds import kinds
from tests.faults.schedule import Schedule, carry_out, drawn
from tests.running_service import wait_until

SETTLE_SECONDS = 300
"""A worker that is killed holds its work for a minute, and a failed analysis waits up to 80 s."""


@dataclass
class Campaign:
    """Schedules one after the other; `settle` audits what needed background work."""

    house: House
    only: tuple[str, ...] = ()
    """Kinds of faults; empty: all."""
    schedules: list[Schedule] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    faults: Counter[str] = field(default_factory=Counter)
    told: Told = field(default_factory=Told)

    def run(self, seeds: Iterable[int], say: Callable[[str], None] = lambda _: None) -> None:
        known = {k: v for k, v in kinds(self.house).items() if not self.only or k in self.only}
        for seed in seeds:
            schedule = drawn(seed, self.house, known, self.told)
            say(str(schedule))
            carry_out(schedule, self.house, known)
            self.faults.update(fault.kind for fault in schedule.faults)
            self.faults.update(schedule.disorders)
            self.schedules.append(schedule)
            self.figures.problems += [f"{schedule}: {each}" for each in schedule.problems]
            self.figures.add(audit.of_samples(self.house, schedule))

    def settle(self) -> None:
        """Wait for the background work of all schedules, then audit its results."""
        try:
            wait_until(self._is_analysed, SETTLE_SECONDS, "analyses", self._waiting)
            due = sum(len(audit.due_mails(self.house, each)) for each in self.schedules)
            wait_until(lambda: self._is_mailed(due), SETTLE_SECONDS, "mails", self._waiting)
        except AssertionError as error:
            self.figures.problems.append(str(error))
        for schedule in self.schedules:
            # Once more: compaction may have moved the samples meanwhile.
            again = audit.of_samples(self.house, schedule)
            again.samples = again.artefacts = 0
            self.figures.add(again)
        self.figures.add(audit.of_costs(self.house, self.schedules))
        self.figures.add(audit.of_mails(self.house, self.schedules))

    def _is_analysed(self) -> bool:
        waiting = "SELECT COUNT(*) FROM analysis_analysis WHERE NOT (is_final AND done >= wanted)"
        return self.house.query(waiting) == [(0,)]

    def _is_mailed(self, due: int) -> bool:
        waiting = "SELECT COUNT(*) FROM notify_mail WHERE state = 'waiting'"
        return self.house.query(waiting) == [(0,)] and len(self.house.sent_mails()) >= due

    def _waiting(self) -> str:
        analyses = "SELECT run_id, attempts, kills, error, leased_until, due_at, given_up_at"
        analyses += " FROM analysis_analysis WHERE NOT (is_final AND done >= wanted)"
        mails = "SELECT subject_key, attempts, kills, error, due_at FROM notify_mail"
        mails += " WHERE state = 'waiting'"
        return f"{self.house.query(analyses)} {self.house.query(mails)}"
