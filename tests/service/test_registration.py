"""The job of an upload, and the declared values that a person's edits override."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from django.utils import timezone
from trimtab.wire import NodeFacts

from webapp.runs.models import Job, MovedRun, Node, Run


@pytest.fixture
def uploaded(agent) -> Run:
    agent.declare(owner="ada", tags={"team": "vision", "sweep": "3"})
    return Run.objects.select_related("job").get()


def another(agent, job: str = "digits") -> Run:  # type: ignore[no-untyped-def]
    """Return one more run of the same agent."""
    again = type(agent)(agent.client, agent.token, job=job)
    assert again.declare().status_code == 200
    return Run.objects.select_related("job").get(pk=again.run_id)


def test_a_renamed_job_gets_the_runs_of_its_key_and_of_its_name(agent, uploaded):
    Job.objects.update(name="Digits, nightly")
    assert another(agent).job == another(agent, "Digits, nightly").job == uploaded.job
    assert Job.objects.get().key == "digits"
    agent.put(agent.segment(0))
    assert Run.objects.get(pk=uploaded.pk).job == uploaded.job


def test_runs_under_the_key_of_a_merged_job_go_where_it_went(agent, uploaded):
    target = another(agent, "digits, all").job
    further = another(agent, "everything").job
    Job.objects.filter(pk=uploaded.job_id).update(merged_into=target)
    late = another(agent)
    assert (late.job, late.number) == (target, 2)
    assert MovedRun.objects.get(run=late).came_from == uploaded.job
    Job.objects.filter(pk=target.pk).update(merged_into=further)
    later = another(agent)
    assert later.job == further
    came_from = set(MovedRun.objects.filter(run=later).values_list("came_from", flat=True))
    assert came_from == {uploaded.job_id, target.pk}


def test_a_new_run_brings_a_deleted_job_back_without_its_deleted_runs(agent, uploaded):
    Job.objects.update(deleted_at=timezone.now())
    Run.objects.update(deleted_at=timezone.now())
    new = another(agent)
    assert Job.objects.get().deleted_at is None
    assert list(new.job.present_runs) == [new]
    assert new.number == 2


def test_late_segments_of_a_deleted_run_are_taken_and_bring_nothing_back(agent, uploaded):
    Job.objects.update(deleted_at=timezone.now())
    Run.objects.update(deleted_at=timezone.now())
    for segment in agent.segments(2):
        assert agent.put(segment).status_code == 200
    assert agent.declare(job="elsewhere").status_code == 200
    run = Run.objects.get()
    assert run.state == "finished"
    assert run.deleted_at is not None
    assert Job.objects.get().deleted_at is not None


def test_what_a_person_has_set_outlives_a_declaration(agent, uploaded):
    uploaded.owner, uploaded.owner_is_edited = "grace", True
    uploaded.tags, uploaded.edited_tags = {"team": "speech"}, ["team", "sweep"]
    uploaded.save()
    agent.declare(owner="ada", tags={"team": "vision", "sweep": "3", "new": "1"})
    run = Run.objects.get()
    assert (run.owner, run.tags) == ("grace", {"team": "speech", "new": "1"})


def test_a_corrected_machine_outlives_a_declaration_and_keeps_what_was_declared(agent, uploaded):
    node = Node.objects.get()
    node.instance_type, node.declared = "g5.xlarge", {"instance_type": node.instance_type}
    node.save()
    agent.instance_type = "m5.large"
    agent.declare()
    node.refresh_from_db()
    assert node.instance_type == "g5.xlarge"
    assert node.declared == {"instance_type": "m5.large"}
    assert node.region == "us-east-1"


def test_when_the_machine_was_started_is_kept_and_told(agent, uploaded):
    """Most agents learn it a second later than the rest, and say it in a second declaration."""
    assert Node.objects.get().instance_started_at is None
    facts = NodeFacts(agent.machine_id, instance_started_at_ns=1_795_162_530_123_456_789)
    assert agent.declare(node=facts).status_code == 200
    agent.declare()
    node = Node.objects.get()
    assert node.instance_started_at == datetime(2026, 11, 20, 8, 15, 30, 123456, UTC)
    answer = agent.client.get(
        f"/api/v1/runs/{agent.run_id}", headers={"Authorization": f"Bearer {agent.token}"}
    ).json()
    (told,) = answer["nodes"]
    assert told["instance_started_at"] == "2026-11-20T08:15:30.123Z"
    assert (told["number"], told["instance_type"], told["vcpus"]) == (1, "c5.large", 2)


def test_a_machine_that_was_started_in_the_far_future_is_taken_as_told(agent):
    """The greatest number on the wire is a date still."""
    facts = NodeFacts(agent.machine_id, instance_started_at_ns=2**63 - 1)
    assert agent.declare(node=facts).status_code == 200
    assert Node.objects.get().instance_started_at.year == 2262


def test_refused_uploads_that_expired_are_counted_by_session(agent, uploaded):
    first = agent.session_id
    agent.declare(expired_uploads=2)
    agent.declare(expired_uploads=3)
    agent.declare()
    agent.session_id = UUID(int=5)
    agent.declare(expired_uploads=1)
    assert Node.objects.get().expired_uploads == {str(first): 3, str(UUID(int=5)): 1}


def test_a_new_run_takes_few_statements(agent, django_assert_max_num_queries):
    """One that nobody declared yet, in a job that is known; commits and messages not counted."""
    agent.declare()
    new = type(agent)(agent.client, agent.token, job=agent.job)
    with django_assert_max_num_queries(28):
        assert new.put(new.segment(0)).status_code == 200


def test_the_nodes_of_a_run_are_numbered_as_they_come(agent):
    for machine in ("machine-1", "machine-2", "machine-1", "machine-3"):
        agent.machine_id, agent.session_id = machine, uuid4()
        assert agent.put(agent.segment(0)).status_code == 200
    agent.machine_id, agent.session_id, agent.attempt = "machine-1", uuid4(), 1
    assert agent.put(agent.segment(0)).status_code == 200
    nodes = Node.objects.values_list("attempt__number", "machine_id", "number")
    assert set(nodes) == {
        *((0, "machine-1", 1), (0, "machine-2", 2), (0, "machine-3", 3)),
        (1, "machine-1", 4),
    }
