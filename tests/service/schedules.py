"""Random schedules of runs that share machines, and an independent count of what they cost.

A schedule plays agents, workers that are slow or die, and people, in a random order. The count
knows only what was sent: who held which machine, when, and for how much of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from random import Random
from uuid import UUID, uuid4

from django.test import Client
from django.urls import reverse
from django.utils import timezone
from trimtab.wire import NodeFacts, Segment

from tests.service.uploads import SEGMENT_MS, FakeAgent
from webapp.analysis import queue
from webapp.analysis.judging import evaluation
from webapp.analysis.models import Analysis
from webapp.analysis.outcome import Outcome
from webapp.analysis.results import outcome_rows
from webapp.analysis.tasks import evaluate, recount
from webapp.prices.models import Price
from webapp.runs.models import Run

MINIMUM_SECONDS = 60
NS = 10**9
MOST_SWEEPS = 20


@dataclass
class Session:
    """One agent process: what it still has to send, and what was acknowledged."""

    agent: FakeAgent
    facts: NodeFacts
    to_send: list[Segment]
    sent: list[Segment] = field(default_factory=list)
    is_declared: bool = False

    @property
    def node(self) -> tuple[UUID, int, str]:
        return self.agent.run_id, self.agent.attempt, self.agent.machine_id

    @property
    def held(self) -> tuple[int, int] | None:
        """Return start and end in seconds since 1970, or None."""
        if not self.sent:
            return None
        start = self.agent.started_at_ns // NS
        return start, start + max(s.seq + 1 for s in self.sent) * SEGMENT_MS // 1000

    def declare(self) -> None:
        assert self.agent.declare(attempt=self.agent.attempt, node=self.facts).status_code == 200
        self.is_declared = True

    def upload(self) -> None:
        segment = self.to_send.pop(0)
        assert self.agent.put(segment).status_code == 200
        self.sent.append(segment)


class Schedule:
    """Plays one schedule in a workspace."""

    def __init__(self, seed: int, token: str, person: Client) -> None:
        self.random = Random(seed)
        self._client, self._token, self._person = Client(), token, person
        self._now = int(timezone.now().timestamp()) - 3600
        self.run_ids = [uuid4() for _ in range(self.random.randint(1, 4))]
        self.sessions = [each for run_id in self.run_ids for each in self._sessions(run_id)]
        self.instance_types: dict[UUID, str] = {}
        """Run -> the type that a person corrected."""
        self.deleted: set[UUID] = set()
        self._begun: list[tuple[queue.AnalysisClaim, Outcome]] = []
        self._kills: dict[UUID, int] = {}

    def _sessions(self, run_id: UUID) -> Iterator[Session]:
        """Yield one or two attempts of one or two nodes, each with one or two sessions."""
        draw = self.random
        machines = draw.sample(["m-1", "m-2", "m-3"], draw.randint(1, 2))
        owns = draw.random() < 0.4
        start = self._now + draw.randint(0, 90)
        for attempt in range(draw.randint(1, 2)):
            for machine in machines:
                facts = NodeFacts(
                    machine_id=machine, provider="aws", service="ec2", region="us-east-1",
                    instance_type="c5.large", vcpus=2, effective_cpus=draw.choice([0.5, 1.0, 2.0]),
                    owns_machine=owns,
                    instance_started_at_ns=draw.choice([0, (start - 600) * NS, start * NS]),
                )  # fmt: skip
                begin = start
                for _ in range(draw.choice([1, 1, 2])):
                    yield self._session(run_id, attempt, facts, begin)
                    begin += draw.randint(0, 60)
            start += draw.randint(20, 150)

    def _session(self, run_id: UUID, attempt: int, facts: NodeFacts, start: int) -> Session:
        agent = FakeAgent(
            self._client, self._token, job=f"job-{run_id}", run_id=run_id, attempt=attempt,
            machine_id=facts.machine_id, started_at_ns=start * NS,
        )  # fmt: skip
        segments = agent.segments(self.random.randint(1, 4))
        if self.random.random() < 0.3:
            self.random.shuffle(segments)
        return Session(agent, facts, segments)

    def play(self) -> None:
        """Play until everything was sent."""
        while any(s.to_send or not s.is_declared for s in self.sessions):
            self.random.choice(
                [*[self._send] * 6, self._send_again, *[self._analyse] * 2, self._begin,
                 *[self._end] * 2, self._kill, self._delete_or_restore, self._correct, recount]
            )()  # fmt: skip
        for _ in range(self.random.randint(0, 8)):
            self.random.choice(
                [self._analyse, self._begin, self._end, self._kill, self._delete_or_restore,
                 self._send_again]
            )()  # fmt: skip
        while self._begun:
            self._end()

    def settle(self) -> None:
        """Analyse and sweep until nothing is left to do."""
        Analysis.objects.update(leased_until=None, lease=None)
        for _ in range(MOST_SWEEPS):
            recount()
            due = [a.run_id for a in Analysis.objects.all() if a.wanted > a.done]
            due = [run_id for run_id in due if run_id not in self.deleted]
            if not due:
                return
            self.random.shuffle(due)
            for run_id in due:
                evaluate(str(run_id))
        raise AssertionError("the sweep never ends")

    def _send(self) -> None:
        session = self.random.choice(self.sessions)
        if not session.is_declared and self.random.random() < 0.7:
            session.declare()
        elif session.to_send:
            session.upload()

    def _send_again(self) -> None:
        session = self.random.choice(self.sessions)
        if session.sent:
            segment = self.random.choice(session.sent)
            assert session.agent.put(segment).status_code == 200
        if session.is_declared:
            session.declare()

    def _analyse(self) -> None:
        evaluate(str(self.random.choice(self.run_ids)))

    def _begin(self) -> None:
        """Let a worker read a run. It writes later, or never."""
        run_id = self.random.choice(self.run_ids)
        if not Analysis.objects.filter(run_id=run_id).exists():
            return
        held = queue.claim(run_id)
        if held is not None:
            self._begun.append((held, evaluation.evaluate(held)))

    def _end(self) -> None:
        if self._begun:
            held, outcome = self._begun.pop(self.random.randrange(len(self._begun)))
            queue.finish_analysis(held, partial(outcome_rows.save, outcome), outcome.is_final)

    def _kill(self) -> None:
        """Let a worker die between reading and writing; its lease expires."""
        if not self._begun:
            return
        held, _ = self._begun[-1]
        if self._kills.get(held.run_id, 0) < 2:
            self._begun.pop()
            self._kills[held.run_id] = self._kills.get(held.run_id, 0) + 1
            past = timezone.now() - timedelta(seconds=1)
            Analysis.objects.filter(run_id=held.run_id).update(leased_until=past)

    def _delete_or_restore(self) -> None:
        run_id = self.random.choice(self.run_ids)
        if not Run.objects.filter(pk=run_id).exists():
            return
        if run_id in self.deleted:
            self._ask("runs:restore_run", run_id)
            self.deleted.remove(run_id)
        elif self.random.random() < 0.5:
            self._ask("runs:delete_run", run_id)
            self.deleted.add(run_id)

    def _correct(self) -> None:
        """Correct, as a person does, the type of all machines of a run that has begun."""
        run_id = self.random.choice(self.run_ids)
        mine = [session for session in self.sessions if session.node[0] == run_id]
        if run_id in self.deleted or not all(s.is_declared and s.sent for s in mine):
            return
        known = {"region": "us-east-1", "purchase_option": "on_demand"}
        self.instance_types[run_id] = self.random.choice(["c5.large", "c5.xlarge"])
        self._ask(
            "runs:correct_machine", run_id, instance_type=self.instance_types[run_id], **known
        )

    def _ask(self, name: str, run_id: UUID, **values: str) -> None:
        answer = self._person.post(reverse(name, args=[run_id]), values)
        assert answer.status_code == 302, answer.content

    # What it costs, by another way.

    def expected_usd(self, run_id: UUID) -> Decimal:
        """Return the sum of each node's exact cost, rounded once."""
        exact = dict.fromkeys((s.node for s in self.sessions if s.node[0] == run_id), Fraction(0))
        for start, end in self._cuts():
            for node in exact:
                exact[node] += self._rate(node, start) * (end - start)
        for machine in self._starts(run_id):
            for node, seconds, rate in self._minimum(machine):
                exact[node] += rate * seconds
        price = Fraction(_usd_per_hour(self.instance_types.get(run_id, "c5.large"))) / 3600
        nano = sum((usd * price * 2 * NS + 1) // 2 for usd in exact.values())
        return Decimal(int(nano)).scaleb(-9)

    def _cuts(self) -> Iterator[tuple[int, int]]:
        return pairwise(sorted({edge for s in self.sessions if s.held for edge in s.held}))

    def _rate(self, node: tuple[UUID, int, str], when: int) -> Fraction:
        """Return the share of the machine that the node pays for at that second."""
        active = {
            session.node: Fraction(session.facts.effective_cpus) / 2
            for session in self._present()
            if session.node[2] == node[2] and session.held and _holds(session.held, when)
        }
        return active[node] / max(sum(active.values()), 1) if node in active else Fraction(0)

    def _present(self) -> list[Session]:
        return [session for session in self.sessions if session.node[0] not in self.deleted]

    def _starts(self, run_id: UUID) -> list[list[Session]]:
        """Return the sessions of each start of each machine of the run."""
        mine = [session for session in self.sessions if session.node[0] == run_id]
        by_start: dict[tuple[str, int], list[Session]] = {}
        for session in mine:
            known = [
                other.facts.instance_started_at_ns
                for other in mine
                if other.node[2] == session.node[2] and other.facts.instance_started_at_ns
            ]
            start = session.facts.instance_started_at_ns or min(known, default=0)
            by_start.setdefault((session.node[2], start), []).append(session)
        return list(by_start.values())

    def _minimum(
        self, together: list[Session]
    ) -> Iterator[tuple[tuple[UUID, int, str], int, Fraction]]:
        """Yield node, seconds and share of the machine's first minute that nobody of the run
        used.
        """
        if not together[0].facts.owns_machine:
            return
        held = [session.held for session in together if session.held]
        first = min(start for start, _ in held)
        for second in range(first, first + MINIMUM_SECONDS):
            if not any(_holds(each, second) for each in held):
                end = max(end for _, end in held if end <= second)
                for node in {s.node for s in together if s.held and s.held[1] == end}:
                    yield node, 1, self._rate(node, end - 1)


def _holds(held: tuple[int, int], when: int) -> bool:
    return held[0] <= when < held[1]


def _usd_per_hour(instance_type: str) -> Decimal:
    rows = Price.objects.filter(
        workspace=None, provider="aws", service="ec2", region="us-east-1",
        instance_type=instance_type, purchase_option="on_demand", operating_system="linux", zone="",
        valid_from__lte=datetime.now(UTC),
    )  # fmt: skip
    return rows.latest("valid_from").usd_per_hour
