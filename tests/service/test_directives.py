"""The requests of the service to running agents: a rule asks for their end, a person for a
profile.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from trimtab.wire import Event

from tests.service.uploads import FakeAgent
from webapp.accounts.models import AuditEntry
from webapp.directives import issue
from webapp.directives.models import Directive
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


def running(agent: FakeAgent, **declared: object) -> Run:
    agent.declare(**{"allow_stop": True, **declared})
    assert agent.put(agent.segment(0)).json()["directives"] == []
    return Run.objects.get(pk=agent.run_id)


def answered(agent: FakeAgent, seq: int, directive: str, outcome: str = "done", reason: str = ""):
    """Return what the answer to the segment that carries the agent's word still asks."""
    data = {"id": directive, "directive": "stop", "outcome": outcome, "reason": reason}
    return agent.put(agent.segment(seq, events=[Event(5, "directive", data)])).json()["directives"]


def ended(agent: FakeAgent, seq: int, state: str = "stopped", **more: object) -> Run:
    data = {"state": state, "exit_code": 143, "final_seq": seq, **more}
    agent.put(agent.segment(seq, events=[Event(10_000, "session_end", data)]))
    return Run.objects.get(pk=agent.run_id)


def test_every_answer_repeats_what_is_asked_until_the_agent_has_said_that_it_heard(agent):
    run = running(agent)
    asked = issue.stop(run, "hung")
    said = {"id": str(asked.uuid), "kind": "stop", "rule": "hung", "grace_seconds": 30}
    assert agent.put(agent.segment(1)).json()["directives"] == [said]
    assert agent.put(agent.segment(1)).json() | {"server_time_ns": 0} == {
        "duplicate": True,
        "refused": [],
        "server_time_ns": 0,
        "retry_after": None,
        "directives": [said],
        "resend": [],
    }
    assert answered(agent, 2, said["id"]) == []
    assert agent.put(agent.segment(3)).json()["directives"] == []
    answer = asked.answers.get()
    assert (answer.outcome, str(answer.session_id)) == ("done", str(agent.session_id))


def test_the_run_ends_as_stopped_and_says_by_which_rule(agent):
    running(agent)
    assert ended(agent, 1, rule="hung").stopped_by == "hung"
    answer = agent.client.get(
        f"/api/v1/runs/{agent.run_id}", headers={"Authorization": f"Bearer {agent.token}"}
    ).json()
    assert (answer["state"], answer["stopped_by"]) == ("stopped", "hung")


def test_a_run_that_its_user_interrupts_was_stopped_by_no_rule(agent):
    running(agent)
    run = ended(agent, 1)
    assert (run.state, run.stopped_by) == (Run.STOPPED, "")


def test_a_run_is_stopped_also_where_another_node_fails_of_it(agent, token):
    other = FakeAgent(agent.client, token, run_id=agent.run_id, machine_id="machine-2")
    running(agent)
    running(other)
    assert ended(other, 1, "failed").state == Run.RUNNING
    run = ended(agent, 1, rule="hung")
    assert (run.state, run.stopped_by) == (Run.STOPPED, "hung")


def test_it_is_asked_once_however_often_a_rule_says_so_and_it_is_written_down(agent):
    run = running(agent)
    first, second = issue.stop(run, "hung"), issue.stop(run, "hung")
    assert first == second
    entry = AuditEntry.objects.get(action="run.stop_asked")
    assert (entry.actor_name, entry.change) == ("Trimtab", {"rule": [None, "hung"]})


def test_a_run_that_does_not_allow_it_is_never_asked(agent):
    run = running(agent, allow_stop=False)
    assert issue.stop(run, "hung") is None
    assert agent.put(agent.segment(1)).json()["directives"] == []
    assert not AuditEntry.objects.exists()


def test_a_run_of_an_agent_that_says_nothing_of_it_is_never_asked(agent):
    agent.put(agent.segment(0))
    assert issue.stop(Run.objects.get(), "hung") is None


def test_every_node_must_allow_it_and_every_node_hears_it(agent, token):
    other = FakeAgent(agent.client, token, run_id=agent.run_id, machine_id="machine-2")
    running(agent)
    run = running(other, allow_stop=False)
    assert issue.stop(run, "hung") is None
    other.declare(allow_stop=True)
    asked = issue.stop(run, "hung")
    assert answered(agent, 1, str(asked.uuid)) == []
    assert [d["kind"] for d in other.put(other.segment(1)).json()["directives"]] == ["stop"]


def test_the_next_attempt_is_not_stopped_for_what_the_one_before_did(agent, token):
    run = running(agent)
    issue.stop(run, "hung")
    again = FakeAgent(agent.client, token, run_id=agent.run_id, attempt=1)
    running(again)
    assert again.put(again.segment(1)).json()["directives"] == []
    assert issue.stop(run, "hung").attempt.number == 1


def test_an_ended_run_is_asked_nothing(agent):
    run = ended(agent, running(agent).number, "finished")
    assert issue.stop(run, "hung") is None
    with pytest.raises(issue.NotRunningError):
        issue.profile(run, run.workspace.tokens.get())


@pytest.mark.parametrize("name", ["", "nonsense", str(UUID(int=7))])
def test_words_about_what_was_never_asked_are_left_alone(agent, name):
    running(agent)
    assert answered(agent, 1, name) == []


def test_another_runs_agent_can_not_answer_for_it(agent, stranger):
    asked = issue.stop(running(agent), "hung")
    running(stranger)
    answered(stranger, 1, str(asked.uuid))
    assert not Directive.objects.get().answers.exists()
    assert len(agent.put(agent.segment(1)).json()["directives"]) == 1


def test_a_refusal_is_kept_with_its_reason(agent):
    asked = issue.stop(running(agent), "hung")
    reason = "the run was started without --allow-stop" + "x" * 1000
    assert answered(agent, 1, str(asked.uuid), "refused", reason) == []
    answer = asked.answers.get()
    assert answer.outcome == "refused"
    assert answer.reason.startswith("the run was started without")
