"""Expired data is deleted, exactly as listed by the dry run, and findings are kept."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from io import StringIO

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from advisor.store.opening import open_store
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token, Workspace
from webapp.analysis import queue
from webapp.analysis.models import Judgement
from webapp.analysis.samples import compaction
from webapp.analysis.tasks import evaluate
from webapp.prices.models import Price
from webapp.retention import deletion
from webapp.retention.models import RetentionReport
from webapp.runs.models import Chunk, Job, Node, Run, Segment

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
NANO_DOLLAR = Decimal("1e-9")


@pytest.fixture(params=["folder", "s3"])
def store(request, settings, tmp_path):
    """Return a store, in both places that objects can be in."""
    if request.param == "s3":
        settings.OBJECTS_URL = request.getfixturevalue("bucket_url")
    return open_store(settings.OBJECTS_URL)


def in_days(days: float):  # type: ignore[no-untyped-def]
    return timezone.now() + days * DAY


def uploaded(agent: FakeAgent, count: int = 6) -> Run:
    """Return a finished run, analysed and compacted, with nothing left of what was compacted."""
    agent.declare()
    for segment in agent.segments(count):
        assert agent.put(segment).status_code == 200
    evaluate(str(agent.run_id))
    for node in Node.objects.filter(attempt__run=agent.run_id):
        compaction.compact_node(node.pk)
    compaction.delete_replaced(in_days(1))
    return Run.objects.get(pk=agent.run_id)


def keys() -> set[str]:
    return {listed.key for listed in open_store(django_settings.OBJECTS_URL).list("")}


def kinds(gone) -> dict[str, int]:  # type: ignore[no-untyped-def]
    return {kind: sum(item.kind == kind for item in gone) for kind in {i.kind for i in gone}}


def found_of(run: Run) -> tuple:  # type: ignore[type-arg]
    run.refresh_from_db()
    judged = run.judgements.order_by("rule").values_list("rule", "state", "summary", "numbers")
    advised = run.recommendations.values_list("dedupe_key", "state", "saving_usd")
    return run.cost_usd, run.work, run.summary, list(map(str, judged)), list(advised)


def test_nothing_goes_before_its_time(agent, store):
    uploaded(agent)
    before = keys()
    assert deletion.delete_all_expired(in_days(29)) == []
    assert keys() == before


def test_raw_samples_go_first_and_what_was_found_stays(agent, store):
    run = uploaded(agent)
    before, found = keys(), found_of(run)
    gone = deletion.delete_all_expired(in_days(31))
    assert set(kinds(gone)) == {"raw"}
    assert keys() == before - {item.name for item in gone}
    assert all(item.size_bytes > 0 for item in gone)
    assert found_of(run) == found
    assert run.raw_deleted_at
    assert not run.samples_deleted_at


def test_then_tiers_steps_and_events(agent, store):
    run = uploaded(agent)
    kept = found_of(run)
    deletion.delete_all_expired(in_days(400))
    assert keys() == set()
    assert found_of(run) == kept
    assert run.samples_deleted_at
    assert not Chunk.objects.filter(node__attempt__run=run).exists()


@pytest.mark.parametrize("folder", ["runs/00000000-0000-0000-0000-000000000000", "runs"])
def test_an_object_with_a_row_is_no_orphan_whatever_its_key(store, agent, folder):
    assert agent.put(agent.segment(0)).status_code == 200
    segment = Segment.objects.get()
    body = store.get(segment.object_key)
    store.delete(segment.object_key)
    segment.object_key = f"{folder}/moved.segment"
    segment.save()
    store.put(segment.object_key, body)
    assert deletion.delete_orphans(in_days(2)) == []
    assert store.get(segment.object_key) == body


def test_the_dry_run_lists_what_the_real_run_deletes(agent, store, monkeypatch):
    uploaded(agent)
    store.put("runs/nobody/orphan.segment", b"left by a crash")
    Run.objects.update(deleted_at=timezone.now())
    later = in_days(400)
    monkeypatch.setattr("django.utils.timezone.now", lambda: later)
    before = keys()
    dry, real, again = StringIO(), StringIO(), StringIO()
    call_command("retention", "--dry-run", "--json", stdout=dry)
    assert keys() == before
    call_command("retention", "--json", stdout=real)
    assert real.getvalue() == dry.getvalue()
    listed = [json.loads(line) for line in real.getvalue().splitlines()]
    assert {item["kind"] for item in listed} == {"run", "orphan"}
    assert keys() == set()
    call_command("retention", "--json", stdout=again)
    assert again.getvalue() == ""


def test_a_running_run_loses_nothing(agent, store):
    agent.declare()
    agent.put(agent.segment(0))
    assert deletion.delete_all_expired(in_days(9000)) == []
    assert Segment.objects.exclude(object_key="").count() == 1


def test_a_run_that_waits_for_its_analysis_loses_nothing(agent, store):
    run = uploaded(agent)
    queue.queue_run(run)
    assert deletion.delete_all_expired(in_days(400)) == []


def test_what_is_kept_for_ever_is_kept(agent, store, workspace):
    Workspace.objects.update(keep_raw_days=None, keep_tiers_days=None)
    uploaded(agent)
    assert deletion.delete_all_expired(in_days(9000)) == []


def test_old_runs_go_where_a_workspace_says_so(agent, store, workspace):
    uploaded(agent)
    Workspace.objects.update(keep_runs_days=500)
    gone = deletion.delete_all_expired(in_days(501))
    assert kinds(gone) == {"run": 1}
    assert not Run.objects.exists()
    assert keys() == set()
    report = RetentionReport.objects.get(workspace=workspace)
    assert report.counts == {"run": 1}
    assert report.size_bytes == gone[0].size_bytes > 0


def test_a_run_that_a_followed_recommendation_rests_on_stays(agent, store):
    run = uploaded(agent)
    run.recommendations.update(state="claimed")
    Workspace.objects.update(keep_runs_days=500)
    assert "run" not in kinds(deletion.delete_all_expired(in_days(501)))
    assert Run.objects.filter(pk=run.pk).exists()


def test_a_deleted_run_goes_after_thirty_days_and_its_neighbour_stays(agent, store, token):
    doomed = uploaded(agent)
    kept = uploaded(FakeAgent(Client(), token))
    Run.objects.filter(pk=doomed.pk).update(deleted_at=timezone.now())
    assert "run" not in kinds(deletion.delete_all_expired(in_days(29)))
    assert kinds(deletion.delete_all_expired(in_days(30.5)))["run"] == 1
    assert list(Run.objects.all()) == [kept]
    assert keys()
    assert all(str(kept.pk) in key for key in keys())


def test_a_deleted_job_goes_with_its_runs(agent, store):
    uploaded(agent)
    Job.objects.update(deleted_at=timezone.now())
    assert kinds(deletion.delete_all_expired(in_days(30.5))) == {"run": 1, "job": 1}
    assert not Job.objects.exists()


def test_a_deleted_workspace_goes_whole_and_no_other(agent, stranger, store, workspace):
    uploaded(agent)
    other = uploaded(stranger)
    Workspace.objects.filter(pk=workspace.pk).update(deleted_at=timezone.now())
    deletion.delete_all_expired(in_days(6))
    assert Workspace.objects.filter(pk=workspace.pk).exists()
    deletion.delete_all_expired(in_days(8))
    assert list(Run.objects.all()) == [other]
    assert not Workspace.objects.filter(pk=workspace.pk).exists()
    assert not Token.objects.filter(workspace=workspace.pk).exists()
    assert all(str(other.pk) in key for key in keys())


def test_a_young_object_without_a_row_may_be_an_upload_under_way(store):
    store.put("runs/somebody/upload.segment", b"on its way")
    assert deletion.delete_all_expired(timezone.now()) == []
    assert keys() == {"runs/somebody/upload.segment"}


def test_a_late_segment_spoils_nothing_that_was_found(agent, store):
    run = uploaded(agent, 6)
    kept = found_of(run)
    deletion.delete_all_expired(in_days(400))
    other = FakeAgent(agent.client, agent.token, run_id=agent.run_id, attempt=0)
    other.put(other.segment(0, last=True))
    evaluate(str(run.pk))
    assert found_of(run)[1] == kept[1]
    assert found_of(run)[3] == kept[3]


def test_a_corrected_price_still_counts_when_the_samples_are_gone(agent, store):
    run = uploaded(agent)
    usd, waste = run.cost_usd, Judgement.objects.get(run=run, rule="input_bound").waste_usd_high
    deletion.delete_all_expired(in_days(400))
    Price.objects.filter(instance_type="c5.large").update(usd_per_hour=Decimal("0.17"))
    queue.queue_run(run)
    evaluate(str(run.pk))
    run.refresh_from_db()
    assert abs(run.cost_usd - 2 * usd) <= NANO_DOLLAR
    repriced = Judgement.objects.get(run=run, rule="input_bound").waste_usd_high
    assert abs(repriced - 2 * waste) <= NANO_DOLLAR


class Killed(BaseException):
    """The death of the process at this point."""


def killed_at(step: int, monkeypatch) -> bool:  # type: ignore[no-untyped-def]
    """Delete everything, but die at the given deletion of an object; False: it was over before."""
    steps = iter(range(10_000))
    store = open_store(django_settings.OBJECTS_URL)
    delete = type(store).delete

    def fragile(self, key: str) -> None:  # type: ignore[no-untyped-def]
        if next(steps) == step:
            raise Killed
        delete(self, key)

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "delete", fragile)
        try:
            deletion.delete_all_expired(in_days(400))
        except Killed:
            return True
    return False


def test_killed_anywhere_it_leaves_no_row_without_object_and_no_object_for_good(token, settings):
    for step in range(20):
        run = uploaded(FakeAgent(Client(), token), 1)
        with pytest.MonkeyPatch.context() as monkeypatch:
            was_killed = killed_at(step, monkeypatch)
        pointed_at = set(Chunk.objects.values_list("object_key", flat=True))
        assert pointed_at <= keys()
        deletion.delete_all_expired(in_days(400))
        assert keys() == set()
        assert Run.objects.filter(pk=run.pk).exists()
        if not was_killed:
            return
    pytest.fail("a round has no end")
