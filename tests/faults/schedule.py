"""A schedule: some runs that arrive while some faults happen, all of it drawn from one seed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID, uuid4

from django.test import Client

from tests.faults.agents import GivenUpError, NumberedAgent, Told, Wire
from tests.faults.house import House
from tests.faults.kinds import Break

UPLOAD_SECONDS = 4.0
"""The time over which the uploads of a schedule are spread, if nothing fails."""
DISORDERS = (
    *("uploads out of order", "uploads repeated", "uploads together", "late uploads"),
    "clock steps",
)
Sent = int | str | tuple[int, ...]
"""The number of a segment, several in one request, or another upload."""
CLOCK_STEPS_SECONDS = (-3600.0, -90.0, 90.0, 3600.0)
CHANCE_OF_DISORDER = 0.4
ALONE = ("kill everything", "power loss")
"""Nothing is left that another fault could break."""


@dataclass(frozen=True)
class Fault:
    kind: str
    at_seconds: float
    lasts_seconds: float


@dataclass
class Plan:
    """The uploads of one agent, in order; a number is a segment."""

    agent: NumberedAgent
    sends: list[Sent]
    steps_seconds: float = 0.0
    """The seconds by which its clock is set forward or back in the middle."""
    late: list[int] = field(default_factory=list)
    """Segments that come when the others have been analysed."""


@dataclass
class Schedule:
    """The faults and uploads of one seed, and the results."""

    seed: int
    faults: list[Fault]
    disorders: list[str]
    plans: list[Plan]
    problems: list[str] = field(default_factory=list)

    @property
    def agents(self) -> list[NumberedAgent]:
        return [plan.agent for plan in self.plans]

    @property
    def run_ids(self) -> list[UUID]:
        return sorted({agent.run_id for agent in self.agents})

    def __str__(self) -> str:
        faults = [
            f"{f.kind} at {f.at_seconds:.1f} s for {f.lasts_seconds:.1f} s" for f in self.faults
        ]
        return f"seed {self.seed}: {', '.join([*faults, *self.disorders])}"


def drawn(seed: int, house: House, kinds: Iterable[str], told: Told) -> Schedule:
    """Return the schedule of this seed. The kinds take turns, so that each comes equally often."""
    chance, names = random.Random(seed), sorted(kinds)
    first = names[seed % len(names)]
    others = [] if first in ALONE else chance.sample(names, min(chance.randint(0, 2), len(names)))
    chosen = [first, *(name for name in others if name not in (first, *ALONE))]
    faults = [Fault(name, chance.uniform(0.2, 2.5), chance.uniform(0.3, 3)) for name in chosen]
    disorders = [name for name in DISORDERS if chance.random() < CHANCE_OF_DISORDER]
    plans = [
        plan
        for run in range(chance.randint(1, 2))
        for plan in _plans(seed, run, house, chance, disorders, told)
    ]
    return Schedule(seed, faults, disorders, plans)


def _plans(
    seed: int, run: int, house: House, chance: random.Random, disorders: list[str], told: Told
) -> list[Plan]:
    """Return one or two nodes of one run, of a job of its own."""
    # Unlike all else not from the seed: a schedule that is repeated makes new runs.
    run_id = uuid4()
    nodes = range(chance.choice([1, 1, 2]))
    return [_plan(seed, run, run_id, node, house, chance, disorders, told) for node in nodes]


def _plan(
    seed: int,
    run: int,
    run_id: UUID,
    node: int,
    house: House,
    chance: random.Random,
    disorders: list[str],
    told: Told,
) -> Plan:
    agent = NumberedAgent(
        cast(Client, Wire(house.front.url, told)),
        house.token,
        job=f"proof-{seed}-{run}-{str(run_id)[:8]}",
        run_id=run_id,
        machine_id=f"machine-{run_id}-{node}",
        started_at_ns=start_seconds() * 10**9,
        count=chance.randint(2, 6),
    )
    sends: list[Sent] = list(range(agent.count))
    plan = Plan(agent, sends)
    if "late uploads" in disorders and agent.count > 2:
        plan.late = [chance.randrange(agent.count - 1)]
        sends.remove(plan.late[0])
    if "uploads out of order" in disorders:
        chance.shuffle(sends)
    if "uploads repeated" in disorders:
        sends += chance.choices(sends, k=3)
    if "clock steps" in disorders:
        plan.steps_seconds = chance.choice(CLOCK_STEPS_SECONDS)
    numbers = sorted({each for each in sends if isinstance(each, int)})
    if "uploads together" in disorders and len(numbers) > 1:
        several = tuple(chance.sample(numbers, chance.randint(2, len(numbers))))
        sends[:] = [several, *(each for each in sends if each not in several)]
    for other in ("declaration", "artefact"):
        sends.insert(chance.randrange(len(sends) + 1), other)
    return plan


def start_seconds() -> int:
    """Return a time about an hour ago, and not near an hour's end: no run sees midnight, however
    far its clock is off, so its cost is of one day.
    """
    start = int(time.time()) - 3600
    return start - 1200 if (start + 600) % 3600 < 1200 else start


def carry_out(schedule: Schedule, house: House, kinds: dict[str, Break]) -> None:
    """Returns when all is acknowledged and mended; what wasn't is in `schedule.problems`."""
    chance = random.Random(schedule.seed)
    house.agents, house.lost_by_power = schedule.agents, schedule.problems
    with ThreadPoolExecutor(len(schedule.faults) + len(schedule.plans)) as pool:
        began = time.monotonic()
        doing = [
            pool.submit(_break, fault, kinds[fault.kind], house, random.Random(chance.random()))
            for fault in schedule.faults
        ]
        doing += [pool.submit(_send, plan, began) for plan in schedule.plans]
    for each in doing:
        error = each.exception()
        if isinstance(error, GivenUpError):
            schedule.problems.append(str(error))
        elif error is not None:
            raise error
    house.recover()


def _break(fault: Fault, break_it: Break, house: House, chance: random.Random) -> None:
    time.sleep(fault.at_seconds)
    with break_it(house, chance):
        time.sleep(fault.lasts_seconds)


def _send(plan: Plan, began: float) -> None:
    pause_seconds = UPLOAD_SECONDS / len(plan.sends)
    for number, what in enumerate(plan.sends):
        time.sleep(max(began + number * pause_seconds - time.monotonic(), 0))
        if number == len(plan.sends) // 2:
            plan.agent.skew_seconds = plan.steps_seconds
        _send_one(plan.agent, what)
    if plan.late:
        time.sleep(2)
    for seq in plan.late:
        plan.agent.upload(seq)


def _send_one(agent: NumberedAgent, what: Sent) -> None:
    if what == "declaration":
        agent.declare()
    elif what == "artefact":
        agent.put_artefact(agent.artefact, kind="report", name="report.bin")
    elif isinstance(what, tuple):
        agent.upload_together(what)
    else:
        agent.upload(int(what))
