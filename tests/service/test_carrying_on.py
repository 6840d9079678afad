"""Analyses of a running run carry on from kept columns, with the results of one from scratch."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trimtab.wire import Block, Event, Segment, StepBlock

from advisor.store.opening import open_store
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Workspace
from webapp.analysis.models import Analysis, Judgement, LedgerEntry
from webapp.analysis.samples import chunk_rows, compaction
from webapp.analysis.tasks import evaluate
from webapp.quotas import storage
from webapp.quotas.models import StorageUse
from webapp.retention import deletion
from webapp.runs.models import Chunk, Node, Run, Session

pytestmark = pytest.mark.django_db
PART_MS = 900_000
HOURS = 4
COUNT = HOURS * 3_600_000 // PART_MS
HOUR_NS = 3600 * 10**9


def started_ns() -> int:
    """Return a start on the hour, so that no segment lies in two."""
    return (time.time_ns() // HOUR_NS - HOURS) * HOUR_NS


def runner(token: str, machine: str = "machine-1", **more) -> FakeAgent:  # type: ignore[no-untyped-def]
    return FakeAgent(Client(), token, machine_id=machine, started_at_ns=started_ns(), **more)


def part(agent: FakeAgent, seq: int, *, last: bool = False) -> Segment:
    times = list(range(0, PART_MS, 15_000))
    values = [(seq * 7 + n * 13) % 100 for n in range(len(times))]
    blocks = [
        Block(
            times,
            {
                "host.cpu_busy_pct": values,
                "tree.cpu_seconds_total": [seq * 900.0 + at / 2000 for at in times],
            },
        )
    ]
    starts = [n * 10**6 for n in range(0, 900, 10)]
    steps = StepBlock(0, "train", starts, [9_000_000] * 90, [4_000_000] * 90, [32] * 90)
    end = {"state": "finished", "exit_code": 0, "final_seq": seq}
    return agent.segment(
        seq,
        start_ms=seq * PART_MS,
        duration_ms=PART_MS,
        resolution_ms=5000,
        blocks=blocks,
        steps=[steps],
        events=[Event(PART_MS, "session_end", end)] if last else [],
    )


def send(agent: FakeAgent, seqs) -> None:  # type: ignore[no-untyped-def]
    for seq in seqs:
        assert agent.put(part(agent, seq)).status_code == 200


def analyse(agent: FakeAgent) -> Run:
    """Analyse the whole run, whether it is due or not."""
    Analysis.objects.filter(run=agent.run_id).update(
        done=0, wanted=1, finished_at=None, due_at=timezone.now(), given_up_at=None, lease=None
    )
    evaluate(str(agent.run_id))
    assert Analysis.objects.get(run=agent.run_id).error == ""
    return Run.objects.get(pk=agent.run_id)


def compact(agent: FakeAgent) -> None:
    for node in Node.objects.filter(attempt__run=agent.run_id):
        while compaction.compact_node(node.pk):
            pass


def results(agent: FakeAgent) -> dict[str, object]:
    run = Run.objects.get(pk=agent.run_id)
    ledger = LedgerEntry.objects.filter(run=run).order_by("node__number", "gpu", "label")
    judged = Judgement.objects.filter(run=run)
    return {
        "cost": list(run.cost_parts.values_list("node__number", "day", "microseconds", "usd")),
        "ledger": list(ledger.values_list("node__number", "gpu", "label", "microseconds", "usd")),
        "judged": list(judged.values_list("rule", "state", "summary", "numbers", "values_hash")),
        "figures": (run.work, run.metrics, run.summary, run.cost_usd),
    }


def kept(agent: FakeAgent):  # type: ignore[no-untyped-def]
    return Chunk.objects.filter(node__attempt__run=agent.run_id, kind="columns", replaced_at=None)


def forget(agent: FakeAgent) -> None:
    kept(agent).update(replaced_at=timezone.now())


def is_as_from_scratch(agent: FakeAgent) -> None:
    analyse(agent)
    carried = results(agent)
    forget(agent)
    analyse(agent)
    assert results(agent) == carried


def test_an_analysis_reads_a_compacted_hour_once(token, monkeypatch):
    agent = runner(token)
    agent.declare()
    send(agent, range(COUNT - 1))
    compact(agent)
    analyse(agent)
    hours = Chunk.objects.filter(kind="samples", tier_seconds=0, replaced_at=None).count()
    assert kept(agent).count() == hours >= 2
    read = []
    store = open_store(django_settings.OBJECTS_URL)
    get = type(store).get
    monkeypatch.setattr(type(store), "get", lambda self, key: read.append(key) or get(self, key))
    before = results(agent)
    analyse(agent)
    assert results(agent) == before
    assert sum(key.endswith(".columns") for key in read) == hours
    # The newest one's header says how many series there are.
    assert sum("-samples-0-" in key for key in read) <= 1


STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from([0, 1]), st.integers(0, COUNT - 2)),
    st.tuples(st.just("send all but"), st.sampled_from([0, 1]), st.integers(0, COUNT - 2)),
    st.tuples(st.just("compact"), st.just(0), st.just(0)),
    st.tuples(st.just("analyse"), st.just(0), st.just(0)),
    st.tuples(st.just("correct"), st.sampled_from([0, 1]), st.sampled_from([-3000, 40, 900_000])),
    st.tuples(st.just("kill"), st.just(0), st.integers(0, 3)),
)


@settings(
    max_examples=settings.default.max_examples // 8,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEPS, min_size=3, max_size=10))
def test_whatever_happened_before_the_results_are_those_from_scratch(token, steps):
    first = runner(token, f"machine-{uuid4()}")
    other = runner(token, f"machine-{uuid4()}", run_id=first.run_id)
    for agent in (first, other):
        agent.declare()
    send(first, [0])
    for what, place, number in [*steps, ("compact", 0, 0), ("analyse", 0, 0)]:
        agent = (first, other)[place]
        if what == "send":
            send(agent, [number])
        elif what == "send all but":
            send(agent, (seq for seq in range(COUNT - 1) if seq != number))
        elif what == "compact":
            compact(first)
        elif what == "correct":
            Session.objects.filter(pk=agent.session_id).update(clock_offset_ms=number)
        elif what == "kill":
            _killed(first, number)
        else:
            is_as_from_scratch(first)
    for agent in (first, other):
        send(agent, range(COUNT - 1))
        assert agent.put(part(agent, COUNT - 1, last=True)).status_code == 200
    is_as_from_scratch(first)
    assert not kept(first).exists()


def _killed(agent: FakeAgent, after: int) -> None:
    """Kill a compaction between the object of a chunk and its row."""
    left, save = [after], chunk_rows.save

    def dies(node, ref) -> None:  # type: ignore[no-untyped-def]
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        save(node, ref)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_rows, "save", dies)
        with suppress(KeyboardInterrupt):
            analyse(agent)


def carried_run(token: str) -> FakeAgent:
    agent = runner(token)
    agent.declare()
    send(agent, range(COUNT - 1))
    compact(agent)
    analyse(agent)
    assert kept(agent).exists()
    return agent


def test_a_damaged_chunk_is_made_again(token):
    agent = carried_run(token)
    before = results(agent)
    store = open_store(django_settings.OBJECTS_URL)
    first, *_, last = kept(agent).values_list("object_key", flat=True)
    store.put(first, b"nothing")
    store.delete(last)
    analyse(agent)
    assert results(agent) == before
    assert all(
        len(store.get(key)) > 100 for key in kept(agent).values_list("object_key", flat=True)
    )


def test_they_go_with_the_end_of_the_run(token):
    agent = carried_run(token)
    keys = set(kept(agent).values_list("object_key", flat=True))
    agent.put(part(agent, COUNT - 1, last=True))
    analyse(agent)
    compaction.delete_replaced(timezone.now() + timedelta(hours=2))
    assert not Chunk.objects.filter(object_key__in=keys).exists()
    store = open_store(django_settings.OBJECTS_URL)
    assert not any(store.exists(key) for key in keys)
    before = results(agent)
    analyse(agent)
    assert results(agent) == before
    assert not kept(agent).exists()


def test_they_count_as_stored_and_go_with_the_workspace(token, workspace):
    agent = carried_run(token)
    rows = kept(agent)
    store = open_store(django_settings.OBJECTS_URL)
    sizes = {key: len(store.get(key)) for key in rows.values_list("object_key", flat=True)}
    assert sum(sizes.values()) == sum(rows.values_list("size_bytes", flat=True))
    before = _stored(workspace)
    rows.delete()
    assert before - _stored(workspace) == sum(sizes.values())
    forget(agent)
    analyse(agent)
    Workspace.objects.update(deleted_at=timezone.now() - timedelta(days=8))
    deletion.delete_all_expired(timezone.now())
    assert not list(store.list("runs/"))


def _stored(workspace: Workspace) -> int:
    storage.count(timezone.now())
    return StorageUse.objects.get(workspace=workspace).size_bytes


def test_nothing_is_carried_from_another_workspace(token, stranger, monkeypatch):
    """Both runs have the same samples at the same times."""
    ours = carried_run(token)
    theirs = runner(stranger.token)
    theirs.declare()
    send(theirs, range(COUNT - 1))
    compact(theirs)
    read = []
    store = open_store(django_settings.OBJECTS_URL)
    get = type(store).get
    monkeypatch.setattr(type(store), "get", lambda self, key: read.append(key) or get(self, key))
    for _ in range(2):
        analyse(theirs)
    assert read
    assert not [key for key in read if str(ours.run_id) in key]
