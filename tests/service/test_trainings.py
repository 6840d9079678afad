"""Trainings through the wire: what their attempts lost, in the ledger, the API and on the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from trimtab.wire import (
    Block,
    Declaration,
    Event,
    Gpu,
    NodeFacts,
    Segment,
    SessionClock,
    StepBlock,
    encode_declaration,
    encode_segment,
)

from tests.web import factories
from tests.web.test_query_counts import MOST_QUERIES
from webapp.accounts.models import Token
from webapp.analysis import numbered_steps
from webapp.analysis.models import Analysis, LedgerEntry, NumberedSteps
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = 60
BEGAN_NS = 1_780_000_000 * 10**9
TICK_SECONDS = 10


@dataclass
class Machine:
    """One session of a training on a machine with one GPU, told in seconds since `BEGAN_NS`."""

    client: Client
    token: str
    starts: int = 0
    run_id: UUID = field(default_factory=uuid4)
    attempt: int = 0
    machine_id: str = "machine-1"
    declared: dict[str, Any] = field(default_factory=dict)
    session_id: UUID = field(default_factory=uuid4)
    steps: list[tuple[float, float, float]] = field(default_factory=list)
    """Start, length and wait for data."""
    events: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)

    def works(self, begin: float, end: float, each: float = 10, wait: float = 0) -> None:
        count = round((end - begin) / each)
        self.steps += [(begin + n * each, each, wait) for n in range(count)]

    def tells(self, at: float, kind: str, **data: Any) -> None:
        self.events.append((at, kind, {"rank": 0, **data}))

    def ends(self, at: float, state: str = "finished") -> Run:
        """Upload everything, as one segment, and analyse it."""
        self._put("", encode_declaration(self._declaration()))
        self._put(f"/segments/{self.session_id}/0", encode_segment(self._segment(at, state)))
        evaluate(str(self.run_id))
        return Run.objects.get(pk=self.run_id)

    def _declaration(self) -> Declaration:
        node = NodeFacts(
            machine_id=self.machine_id,
            provider="aws",
            service="ec2",
            region="us-east-1",
            instance_type="g4dn.xlarge",
            vcpus=4,
            effective_cpus=4.0,
            gpus=[Gpu("T4", 16 * 2**30)],
        )
        return Declaration(self.run_id, "llm", self.attempt, self.session_id, node, **self.declared)

    def _segment(self, ends: float, state: str) -> Segment:
        length = round(ends - self.starts)
        times = range(0, length, TICK_SECONDS)
        busy = [self._busy_pct(self.starts + at, TICK_SECONDS) for at in times]
        block = Block([at * 1000 for at in times], {"gpu0.busy_pct": busy})  # type: ignore[dict-item]
        said = {"state": state, "exit_code": 0 if state == "finished" else 1, "final_seq": 0}
        events = [*self.events, (ends, "session_end", said)]
        began = BEGAN_NS + self.starts * 10**9
        return Segment(
            self.run_id,
            "llm",
            self.attempt,
            self.machine_id,
            SessionClock(self.session_id, "boot", began, 5 * 10**9),
            seq=0,
            start_ms=0,
            duration_ms=length * 1000,
            resolution_ms=TICK_SECONDS * 1000,
            blocks=[block],
            steps=[self._steps()] if self.steps else [],
            events=[Event(round((at - self.starts) * 1000), k, d) for at, k, d in sorted(events)],
        )

    def _busy_pct(self, at: float, width: float) -> float:
        """A GPU works in steps, but not while they wait."""
        works = sum(
            max(0.0, min(at + width, start + length) - max(at, start + wait))
            for start, length, wait in self.steps
        )
        return 100 * works / width

    def _steps(self) -> StepBlock:
        columns = ([round(x * 1e6) for x in column] for column in zip(*self.steps, strict=True))
        starts, lengths, waits = columns
        starts = [start - self.starts * 10**6 for start in starts]
        return StepBlock(0, "train", starts, lengths, list(waits), [32] * len(starts))

    def _put(self, place: str, body: bytes) -> None:
        kind = "application/vnd.trimtab.segment+json"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Encoding": "gzip"}
        path = f"/api/v1/runs/{self.run_id}{place}"
        answer = self.client.put(path, body, content_type=kind, headers=headers)
        assert answer.status_code == 200, answer.content
        assert not answer.json()["refused"]


@pytest.fixture
def machine(token: str) -> Any:
    return lambda **more: Machine(Client(), token, **more)


@pytest.fixture
def told(client: Client, workspace: Any) -> Any:
    """The API's answer, with the minutes of each label."""
    _, plain = Token.make(workspace, "all", [Token.READ])

    def ask(reference: Any) -> tuple[dict[str, float], dict[str, Any]]:
        headers = {"Authorization": f"Bearer {plain}"}
        answer = client.get("/api/v1/training", {"training": str(reference)}, headers=headers)
        assert answer.status_code == 200, answer.content
        document = answer.json()
        usd = [line["usd"] for line in document["ledger"]]
        assert sum(map(Decimal, usd)) == Decimal(document["cost_usd"]), "to the nano-dollar"
        minutes = {line["label"]: line["seconds"] / MINUTE for line in document["ledger"]}
        return minutes, document

    return ask


def test_two_hundred_minutes_of_a_resilient_training(machine: Any, told: Any) -> None:
    """100 min effective, 10 load, 40 lost, 15 restart, 10 save, 25 slowdown."""
    node = machine()
    node.tells(0, "rank", local_rank=0, world_size=1, pid=7)
    node.tells(5 * MINUTE, "restore", seconds=5 * MINUTE, bytes=None, step=0)
    node.works(5 * MINUTE, 45 * MINUTE)
    node.tells(50 * MINUTE, "checkpoint", seconds=5 * MINUTE, bytes=10**9)
    node.works(50 * MINUTE, 90 * MINUTE)
    node.tells(105 * MINUTE, "rank", local_rank=0, world_size=1, pid=8, restarts=1)
    node.tells(110 * MINUTE, "restore", seconds=5 * MINUTE, bytes=None, step=240)
    node.works(110 * MINUTE, 140 * MINUTE)
    node.tells(145 * MINUTE, "checkpoint", seconds=5 * MINUTE, bytes=10**9)
    node.works(145 * MINUTE, 200 * MINUTE, each=55 * MINUTE / 180)
    run = node.ends(200 * MINUTE)
    minutes, document = told(run.pk)
    slow = document["slowdown_seconds"] / MINUTE
    assert {label: round(value) for label, value in minutes.items() if round(value)} == {
        "effective": 100 + 25,
        "restore": 10,
        "lost": 40,
        "restart": 15,
        "checkpoint": 10,
    }
    assert round(slow) == 25
    assert round(minutes["effective"] - slow) == 100
    assert document["goodput"] == pytest.approx(125 / 200, abs=0.001)
    assert (document["steps"], document["lost_steps"]) == (600, 240)


def test_waiting_for_data_nine_seconds_of_ten(machine: Any, told: Any) -> None:
    node = machine()
    node.works(MINUTE, 100 * MINUTE, wait=9)
    _, document = told(node.ends(100 * MINUTE).pk)
    assert document["effective_share"] == pytest.approx(0.1, abs=0.005)
    assert document["goodput"] == pytest.approx(0.99, abs=0.002)


def test_a_thousand_seconds_of_hang_after_a_hundred_of_work(machine: Any, told: Any) -> None:
    node = machine()
    node.works(0, 100)
    _, document = told(node.ends(1100, "failed").pk)
    assert document["effective_share"] == pytest.approx(0.09, abs=0.005)
    assert document["is_provisional"], "it may be continued"


def test_a_second_half_twice_as_slow(machine: Any, told: Any) -> None:
    node = machine()
    node.works(0, 100 * MINUTE)
    node.works(100 * MINUTE, 200 * MINUTE, each=20)
    _, document = told(node.ends(200 * MINUTE).pk)
    assert document["slowdown_seconds"] / MINUTE == pytest.approx(50, abs=1)


def two_runs(machine: Any, **declared: Any) -> tuple[Machine, Machine]:
    """The second continues after 240 of 480 steps, 20 min after the end of the first."""
    first = machine(declared=declared)
    first.works(0, 80 * MINUTE)
    first.tells(10, "global_step", step=1)
    second = machine(starts=100 * MINUTE, machine_id="machine-2", declared=declared)
    second.tells(105 * MINUTE, "restore", seconds=5 * MINUTE, bytes=None, step=240)
    second.works(105 * MINUTE, 155 * MINUTE)
    return first, second


@pytest.mark.parametrize("declared", [{"training": "llm-7"}, {"requeue": "kubernetes/ml/llm-7"}])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_later_run_turns_effective_time_into_lost_time(
    machine: Any, told: Any, declared: dict[str, str], is_late: bool
) -> None:
    """In whichever order they arrive."""
    first, second = two_runs(machine, **declared)
    if is_late:
        late = second.ends(155 * MINUTE)
        early = first.ends(80 * MINUTE, "failed")
        numbered_steps.recount(late.pk)
    else:
        early = first.ends(80 * MINUTE, "failed")
        assert "lost" not in told(early.pk)[0]
        late = second.ends(155 * MINUTE)
    analyse_what_is_due()
    minutes, document = told(early.pk)
    assert minutes["lost"] == pytest.approx(40, abs=0.1)
    assert told(late.pk) == (minutes, document)
    assert document["waiting_seconds"] == 20 * MINUTE
    assert [each["waited_seconds"] for each in document["attempts"]] == [None, 20 * MINUTE]
    assert (document["steps"], document["lost_steps"]) == (540, 240)
    assert not document["is_provisional"]
    runs_usd = sum(run.cost_usd for run in Run.objects.all())
    assert Decimal(document["cost_usd"]) == runs_usd
    assert LedgerEntry.objects.filter(run=early, label="lost").exists()


def analyse_what_is_due() -> None:
    for run_id in list(due()):
        evaluate(str(run_id))
    assert not list(due())


def due() -> list[UUID]:
    return [a.run_id for a in Analysis.objects.all() if a.done < a.wanted]


def test_attempts_of_one_run_and_runs_of_one_training_are_the_same(machine: Any, told: Any) -> None:
    first, second = two_runs(machine, training="apart")
    first.ends(80 * MINUTE, "failed")
    second.ends(155 * MINUTE)
    analyse_what_is_due()
    apart = told("apart")
    first, second = two_runs(machine)
    second.run_id, second.attempt = first.run_id, 1
    first.machine_id, second.machine_id = "machine-3", "machine-4"  # else the cost is shared
    first.ends(80 * MINUTE, "failed")
    together = told(second.ends(155 * MINUTE).pk)
    assert apart[0] == together[0]
    same = ("cost_usd", "goodput", "effective_share", "steps", "lost_steps", "waiting_seconds")
    assert [apart[1][name] for name in same] == [together[1][name] for name in same]


def test_a_training_of_one_attempt_has_the_ledger_of_its_run(machine: Any, told: Any) -> None:
    node = machine()
    node.works(MINUTE, 10 * MINUTE, wait=3)
    run = node.ends(11 * MINUTE)
    rows = LedgerEntry.objects.filter(run=run)
    document = told(run.pk)[1]
    assert {line["label"]: Decimal(line["usd"]) for line in document["ledger"]} == {
        row.label: row.usd for row in rows
    }


def test_a_worker_that_was_killed_before_it_looked_at_the_training(machine: Any, told: Any) -> None:
    """The sweep finds runs whose lost steps aren't what a fresh count gives."""
    first, second = two_runs(machine, training="swept")
    early = first.ends(80 * MINUTE, "failed")
    second.ends(155 * MINUTE)
    Analysis.objects.filter(run=early).update(done=1, wanted=1)
    assert told("swept")[1]["is_provisional"]
    assert numbered_steps.want_outdated(early.last_received_at + timedelta(hours=1)) == 1
    analyse_what_is_due()
    minutes, document = told("swept")
    assert minutes["lost"] == pytest.approx(40, abs=0.1)
    assert not document["is_provisional"]
    assert numbered_steps.want_outdated(early.last_received_at + timedelta(hours=1)) == 0


def test_a_run_that_finished_is_not_continued_by_its_scheduler(machine: Any, told: Any) -> None:
    first, second = two_runs(machine, requeue="kubernetes/ml/nightly")
    early = first.ends(80 * MINUTE)
    second.ends(155 * MINUTE)
    assert len(told(early.pk)[1]["attempts"]) == 1


def test_a_number_that_nobody_knows_is_no_lost_work(machine: Any, told: Any) -> None:
    first, second = two_runs(machine, training="unknown")
    second.events = [(105 * MINUTE, "restore", {"rank": 0, "seconds": 300.0, "step": None})]
    first.ends(80 * MINUTE, "failed")
    second.ends(155 * MINUTE)
    minutes, document = told("unknown")
    assert "lost" not in minutes
    assert document["lost_is_unknown"]


def test_the_page_shows_attempts_figures_and_ledger(
    machine: Any, client: Client, workspace: Any
) -> None:
    first, second = two_runs(machine, training="llm <7>")
    first.ends(80 * MINUTE, "failed")
    run = second.ends(155 * MINUTE)
    analyse_what_is_due()
    client.force_login(factories.member(workspace))
    with CaptureQueriesContext(connection) as asked:
        page = client.get(f"/runs/{run.pk}/training/").content.decode()
    assert len(asked) <= MOST_QUERIES
    for text in ("llm &lt;7&gt;", "Goodput", "Lost work", "20 m 0 s", "240"):
        assert text in page, text
    assert f"/runs/{run.pk}/training/" in client.get(f"/runs/{run.pk}/").content.decode()


def test_steps_that_nobody_counted_are_not_zero(
    machine: Any, told: Any, client: Client, workspace: Any
) -> None:
    """As of a run that an earlier version analysed."""
    one = machine()
    one.works(0, 20 * MINUTE)
    run = one.ends(20 * MINUTE)
    assert told(run.pk)[1]["steps"] == 120
    NumberedSteps.objects.all().delete()

    document = told(run.pk)[1]
    assert (document["steps"], document["lost_steps"]) == (None, None)
    client.force_login(factories.member(workspace))
    page = client.get(f"/runs/{run.pk}/training/").content.decode()
    assert "no steps are known of some run" in page


def test_a_training_of_another_workspace_is_unknown(machine: Any, client: Client) -> None:
    first, _ = two_runs(machine, training="secret")
    run = first.ends(80 * MINUTE)
    theirs = factories.workspace("Theirs")
    _, plain = Token.make(theirs, "all", [Token.READ])
    for reference in ("secret", str(run.pk), str(run.training.uuid)):
        headers = {"Authorization": f"Bearer {plain}"}
        answer = client.get("/api/v1/training", {"training": reference}, headers=headers)
        assert answer.status_code == 404
    client.force_login(factories.member(theirs))
    assert client.get(f"/runs/{run.pk}/training/").status_code == 404


def test_runs_are_joined_and_split_by_hand(
    machine: Any, told: Any, client: Client, workspace: Any
) -> None:
    """Each time the lost work is counted again, and each can be undone."""
    first, second = two_runs(machine)
    early, late = first.ends(80 * MINUTE, "failed"), second.ends(155 * MINUTE)
    client.force_login(factories.member(workspace))

    def press(what: str, **fields: str) -> tuple[bool, int]:
        answer = client.post(f"/runs/{late.pk}/training/{what}/", fields, follow=True)
        assert answer.status_code == 200
        analyse_what_is_due()
        minutes, document = told(early.pk)
        return "lost" in minutes, len(document["attempts"])

    assert press("join", other="no such run") == (False, 1)
    assert press("join", other=str(late)) == (False, 1)
    assert press("join", other=str(early)) == (True, 2)
    training = str(Run.objects.get(pk=late.pk).training.uuid)
    assert press("split") == (False, 1)
    assert press("undo", training=training) == (True, 2)
    second.declared = {"training": "elsewhere"}
    second._put("", encode_declaration(second._declaration()))
    assert press("undo", training="") == (False, 1)
    history = [entry.action for entry in workspace.audit_entries.all()]
    assert history.count("run.training_changed") == 4


def test_two_nodes_of_which_one_is_replaced(machine: Any, told: Any) -> None:
    """Both did the lost steps, and both cost money."""
    nodes = [machine(machine_id=name) for name in ("a", "b")]
    for node in nodes:
        node.run_id = nodes[0].run_id
        node.works(0, 80 * MINUTE)
        node.tells(10, "global_step", step=1)
    again = [machine(machine_id=name, starts=100 * MINUTE, attempt=1) for name in ("a", "c")]
    for node in again:
        node.run_id = nodes[0].run_id
        node.tells(105 * MINUTE, "restore", seconds=5 * MINUTE, bytes=None, step=240)
        node.works(105 * MINUTE, 155 * MINUTE)
    for node in (*nodes, again[0]):
        node.ends(80 * MINUTE if node in nodes else 155 * MINUTE, "failed")
    run = again[1].ends(155 * MINUTE)
    minutes, document = told(run.pk)
    assert minutes["lost"] == pytest.approx(80, abs=0.2)
    assert (document["steps"], document["lost_steps"]) == (540, 240)
    assert [each["waited_seconds"] for each in document["attempts"]] == [None, 20 * MINUTE]
