"""Proves what a service kept: every acknowledged sample once, every cent, every mail once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import requests

from tests.faults.agents import NUMBERED, TICK_MS, NumberedAgent
from tests.faults.house import House
from tests.faults.schedule import Schedule
from tests.service.uploads import SEGMENT_MS
from tests.smtp import Delivery

USD_PER_HOUR = Decimal("0.085")
"""The price of a c5.large in us-east-1."""
NANO = Decimal("1e-9")
STEPS_A_SEGMENT = 50
WINDOW_BUCKETS = 2000


@dataclass
class Figures:
    """The counts of an audit. `problems` says what is wrong, each with the seed of its schedule."""

    samples: int = 0
    lost: int = 0
    doubled: int = 0
    costs: int = 0
    wrong_costs: int = 0
    artefacts: int = 0
    artefacts_lost: int = 0
    mails: int = 0
    mails_lost: int = 0
    mails_doubled: int = 0
    mails_apart: int = 0
    """The mails sent again under the same Message-ID, because a fault fell before our commit."""
    problems: list[str] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def of_samples(house: House, schedule: Schedule) -> Figures:
    """Reads every numbered sample of a schedule's runs back, and the files and rows."""
    found = Figures()
    for run_id in schedule.run_ids:
        agents = [agent for agent in schedule.agents if agent.run_id == run_id]
        seen = _seen(house, run_id)
        problems = [*_compare(found, agents, seen), *_rows(house, agents)]
        problems += _artefacts(house, agents, found)
        found.problems += [f"{schedule}: run {run_id}: {problem}" for problem in problems]
    return found


def _seen(house: House, run_id: UUID) -> list[Counter[int]]:
    """Return for each node how often each number is shown by the series API."""
    path = f"/api/v1/runs/{run_id}"
    seconds = float(house.get(path)["duration_seconds"] or 0)
    width = WINDOW_BUCKETS * TICK_MS / 1000
    by_node: dict[str, Counter[int]] = {}
    for window in range(int(seconds // width) + 1):
        start = window * width
        end = min(start + width, seconds)
        buckets = max(round((end - start) * 1000 / TICK_MS), 1)
        query = {"names": NUMBERED, "from": start, "to": end, "buckets": buckets}
        for series in house.get(f"{path}/series", **query)["series"]:
            counted = by_node.setdefault(series["node"], Counter())
            for low, high in zip(series["min"], series["max"], strict=True):
                counted.update([] if low is None else {low, high})
    return list(by_node.values())


def _compare(
    found: Figures, agents: list[NumberedAgent], seen: list[Counter[int]]
) -> Iterable[str]:
    """Compare each agent with the node that is most like it: nodes have names of the service's
    own.
    """
    left = list(seen)
    for agent in sorted(agents, key=lambda each: -each.count):
        own = max(left, key=lambda node: len(agent.ticks & node.keys()), default=Counter())
        if own in left:
            left.remove(own)
        lost = agent.ticks - own.keys()
        doubled = [
            number for number, times in own.items() if times > 1 or number not in agent.ticks
        ]
        found.samples += agent.samples
        found.lost += len(lost)
        found.doubled += len(doubled)
        if lost:
            yield f"lost samples {sorted(lost)[:20]} of session {agent.session_id}"
        if doubled:
            yield f"doubled or foreign samples {sorted(doubled)[:20]} of {agent.session_id}"


def _rows(house: House, agents: list[NumberedAgent]) -> Iterable[str]:
    """Check that the stored rows have each sample once."""
    counted = "SELECT session_id, COUNT(*), SUM(sample_count) FROM runs_segment GROUP BY session_id"
    rows = {UUID(str(session)): kept for session, *kept in house.query(counted)}
    for agent in agents:
        kept = rows.get(agent.session_id, [0, 0])
        if kept != [len(agent.acknowledged), agent.samples]:
            yield f"rows {kept} for {len(agent.acknowledged)} segments, {agent.samples} samples"


def _artefacts(house: House, agents: list[NumberedAgent], found: Figures) -> Iterable[str]:
    for agent in agents:
        sha256 = hashlib.sha256(agent.artefact).hexdigest()
        answer = requests.get(
            f"{house.service.url}/api/v1/runs/{agent.run_id}/artefacts/{sha256}",
            headers={"Authorization": f"Bearer {house.read_token}"},
            timeout=30,
        )
        found.artefacts += 1
        if answer.content != agent.artefact:
            found.artefacts_lost += 1
            yield f"artefact {sha256}: {answer.status_code}"


def expected_cost_usd(agents: Iterable[NumberedAgent]) -> Decimal:
    """Return the cost from what the agents were told alone: each node's time at the list price."""
    hours = [Decimal(agent.count * SEGMENT_MS) / 3_600_000 for agent in agents]
    costs = [(USD_PER_HOUR * each).quantize(NANO, ROUND_HALF_UP) for each in hours]
    return sum(costs, Decimal(0))


def of_costs(house: House, schedules: Iterable[Schedule]) -> Figures:
    """Compares each run's cost, ledger and work with a fresh count."""
    found = Figures()
    for schedule in schedules:
        for run_id in schedule.run_ids:
            agents = [agent for agent in schedule.agents if agent.run_id == run_id]
            document = house.get(f"/api/v1/runs/{run_id}")
            problems = list(_cost_problems(document, agents))
            found.costs += 1
            found.wrong_costs += bool(problems)
            found.problems += [f"{schedule}: run {run_id}: {problem}" for problem in problems]
    return found


def _cost_problems(document: dict[str, Any], agents: list[NumberedAgent]) -> Iterable[str]:
    expected, cost = expected_cost_usd(agents), Decimal(document["cost_usd"] or "NaN")
    if not document["analysis_is_final"] or document["state"] != "finished":
        yield f"not analysed: {document['state']} {document['analysis_error']}"
    if cost != expected:
        yield f"cost {cost} instead of {expected}"
    ledger = sum((Decimal(line["usd"]) for line in document["ledger"]), Decimal(0))
    if ledger != cost:
        yield f"ledger {ledger} instead of {cost}"
    steps = STEPS_A_SEGMENT * max(agent.count for agent in agents)
    if document["work"].get("steps") != steps:
        yield f"work {document['work']} instead of {steps} steps"


def of_mails(house: House, schedules: Iterable[Schedule]) -> Figures:
    """Compares the mail server's box with the recommendations of all runs."""
    found = Figures()
    copies: dict[str, list[Delivery]] = {}
    for delivery in house.mailbox.deliveries:
        copies.setdefault(delivery.message_id, []).append(delivery)
    for deliveries in copies.values():
        found.mails += 1
        for first, second in pairwise(deliveries):
            is_apart = _falls_between(house, first, second)
            found.mails_apart += is_apart
            found.mails_doubled += not is_apart
            if not is_apart:
                found.problems.append(f"sent twice: {first.message['Subject']}")
    subjects = Counter(str(deliveries[0].message["Subject"]) for deliveries in copies.values())
    twice = [subject for subject, times in subjects.items() if times > 1]
    found.mails_doubled += len(twice)
    found.problems += [f"two mails of one subject: {subject}" for subject in twice]
    for schedule in schedules:
        for due in due_mails(house, schedule):
            if not any(subject.startswith(due) for subject in subjects):
                found.mails_lost += 1
                found.problems.append(f"{schedule}: no mail {due!r}")
    return found


def due_mails(house: House, schedule: Schedule) -> list[str]:
    """Return how the subjects begin of the mails that a schedule's recommendations need: for each
    job the one that saves most, by its probability.
    """
    best: dict[str, tuple[float, str]] = {}
    for run_id in schedule.run_ids:
        document = house.get(f"/api/v1/runs/{run_id}")
        for advice in document["recommendations"]:
            if advice["state"] == "active" and not advice["is_provisional"] and advice["risk"] <= 3:
                expected = float(advice["saving_usd"] or 0) * (1 - advice["risk"] / 4)
                job = document["job"]["name"]
                best[job] = max(best.get(job, (-1.0, "")), (expected, advice["title"]))
    return [f"{job}: {title}" for job, (_, title) in best.items()]


def _falls_between(house: House, first: Delivery, second: Delivery) -> bool:
    """Return whether a fault came after the mail server was asked to take the mail, and before we
    knew that it had.
    """
    return any(
        (failure.until >= first.asked_at or first.message_id in failure.held)
        and failure.at <= second.at
        and first.message_id not in failure.sent
        for failure in house.failures
    )
