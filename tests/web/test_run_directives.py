"""Directives, stop notices and file downloads on a run's page."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse
from trimtab.wire import Event

from tests.html import read_page
from tests.service.uploads import FakeAgent
from tests.web import factories
from webapp.accounts.models import AuditEntry, Membership, Token
from webapp.directives import issue
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
BUTTON = "Profile 5 steps"


@pytest.fixture
def agent(owner) -> FakeAgent:
    """Return the agent of a running run that may be stopped."""
    made = FakeAgent(Client(), Token.make(owner.workspace, "agent", ["ingest"])[1])
    made.declare(allow_stop=True)
    made.put(made.segment(0))
    return made


def page_of(agent: FakeAgent) -> str:
    return reverse("dashboard:run", args=[agent.run_id])


def press(owner, agent: FakeAgent) -> str:
    address = reverse("directives:profile_run", args=[agent.run_id])
    return read_page(owner.client.post(address, follow=True))


def ended(agent: FakeAgent, **data: object) -> None:
    last = agent.segment(1, last=True)
    last.events[-1].data |= data
    agent.put(last)


def test_the_button_reaches_the_agent_with_its_next_upload(owner, agent):
    assert BUTTON in owner.page(page_of(agent))
    assert "receives the request with its next upload" in press(owner, agent)
    (said,) = agent.put(agent.segment(1)).json()["directives"]
    assert (said["kind"], said["rank"], said["steps"], said["seconds"]) == ("profile", 0, 5, 30)
    entry = AuditEntry.objects.get(action="run.profile_asked")
    assert entry.actor == owner.user


def test_pressing_again_asks_no_second_time(owner, agent):
    press(owner, agent)
    press(owner, agent)
    assert len(agent.put(agent.segment(1)).json()["directives"]) == 1


def test_a_viewer_has_no_button(owner, agent):
    Membership.objects.update(role=Membership.VIEWER)
    assert BUTTON not in owner.page(page_of(agent))


def test_a_run_that_ended_can_not_be_profiled(owner, agent):
    ended(agent)
    assert BUTTON not in owner.page(page_of(agent))
    assert "No profile requested" in press(owner, agent)
    assert not AuditEntry.objects.exists()


def stop(owner, agent: FakeAgent) -> str:
    address = reverse("directives:stop_run", args=[agent.run_id])
    return read_page(owner.client.post(address, follow=True))


def test_a_person_stops_a_run_that_allows_it(owner, agent):
    assert "Stop the run" in owner.page(page_of(agent))
    assert "Stop requested" in stop(owner, agent)
    stop(owner, agent)
    (said,) = agent.put(agent.segment(1)).json()["directives"]
    assert (said["kind"], said["rule"], said["grace_seconds"]) == ("stop", "", 30)
    assert AuditEntry.objects.get(action="run.stop_asked").actor == owner.user
    done = {"id": said["id"], "directive": "stop", "outcome": "done", "reason": ""}
    agent.put(agent.segment(2, events=[Event(5, "directive", done)]))
    assert "Stopping" in owner.page(page_of(agent))


def test_a_run_that_does_not_allow_it_is_not_stopped_and_the_page_says_why(owner):
    agent = FakeAgent(Client(), Token.make(owner.workspace, "agent", ["ingest"])[1])
    agent.declare()
    agent.put(agent.segment(0))
    page = owner.page(page_of(agent))
    assert "Not possible here" in page
    assert "Stop the run" not in page
    assert "Not stopped: the run was started without --allow-stop" in stop(owner, agent)
    assert agent.put(agent.segment(1)).json()["directives"] == []


def test_a_run_that_ended_is_not_stopped(owner, agent):
    ended(agent)
    assert "Stop the run" not in owner.page(page_of(agent))
    assert "Not stopped: the run is not running" in stop(owner, agent)
    assert not AuditEntry.objects.exists()


def test_the_trace_that_a_profile_brought_is_named_beside_it(owner, agent):
    press(owner, agent)
    (said,) = agent.put(agent.segment(1)).json()["directives"]
    passed = {"id": said["id"], "directive": "profile", "outcome": "passed_on", "reason": ""}
    agent.put(agent.segment(2, events=[Event(5, "directive", passed)]))
    assert "passed the request to the training" in owner.page(page_of(agent))
    trace = factories.artefact(Run.objects.get(), "rank0.trace.json.gz")
    assert re.search(rf"Profile: done: <a href=.*{trace.sha256}", owner.page(page_of(agent)))


def change(owner, agent: FakeAgent, seconds: str) -> str:
    address = reverse("directives:change_interval", args=[agent.run_id])
    return read_page(owner.client.post(address, {"seconds": seconds}, follow=True))


def test_a_changed_interval_reaches_the_agent_and_its_answer_the_page(owner, agent):
    """The choice shows what is in use: what the segments say, and what was asked, once heard."""
    assert '<option value="0.5" selected>' in owner.page(page_of(agent))
    page = change(owner, agent, "2")
    assert "requested a sample every 2 s" in page
    assert '<option value="2" selected>' in page
    (said,) = agent.put(agent.segment(1)).json()["directives"]
    assert said == {"id": said["id"], "kind": "interval", "seconds": 2.0}
    done = {"id": said["id"], "directive": "interval", "outcome": "done", "reason": ""}
    answer = agent.segment(2, resolution_ms=2_000, events=[Event(5, "directive", done)])
    assert agent.put(answer).json()["directives"] == []
    page = owner.page(page_of(agent))
    assert re.search(r"requested a sample every 2 s, .*\. The agent has applied it\.", page)
    assert '<option value="2" selected>' in page
    entry = AuditEntry.objects.get(action="run.interval_asked")
    assert (entry.actor, entry.change) == (owner.user, {"seconds": [None, 2.0]})


def test_of_two_intervals_that_nobody_heard_the_last_is_asked(owner, agent):
    for seconds in ("2", "0.1", "0.1"):
        change(owner, agent, seconds)
    (said,) = agent.put(agent.segment(1)).json()["directives"]
    assert said["seconds"] == 0.1
    assert AuditEntry.objects.filter(action="run.interval_asked").count() == 2


@pytest.mark.parametrize("seconds", ["0.05", "6", "-1", "nan", "inf", "often", "", "1e999"])
def test_an_interval_out_of_bounds_is_refused_with_the_bounds(owner, agent, seconds):
    assert "between 0.1 and 5 s" in change(owner, agent, seconds)
    assert agent.put(agent.segment(1)).json()["directives"] == []
    assert not AuditEntry.objects.exists()


def test_a_run_that_ended_has_no_interval(owner, agent):
    ended(agent)
    assert "Sampling interval" not in owner.page(page_of(agent))
    assert "sampling interval can&#x27;t change" in change(owner, agent, "1")


def test_the_page_says_that_a_rule_asked_and_which_one_ended_the_run(owner, agent):
    assert "asked" not in owner.page(page_of(agent))
    issue.stop(Run.objects.get(), "hung")
    assert "Stop requested: Hung run" in owner.page(page_of(agent))
    ended(agent, state="stopped", exit_code=143, rule="hung")
    page = owner.page(page_of(agent))
    assert "Stopped by a rule: Hung run" in page
    assert 'href="/rules/hung/"' in page


def test_a_refusal_is_shown_with_its_reason(owner, agent):
    asked = issue.stop(Run.objects.get(), "hung")
    asked.answers.create(
        session_id=agent.session_id, outcome="refused", reason="started without --allow-stop"
    )
    page = owner.page(page_of(agent))
    assert "The agent refused to stop the run: Hung run" in page
    assert "Started without --allow-stop." in page


def test_what_an_agent_calls_a_rule_is_shown_as_text(owner, agent):
    ended(agent, state="stopped", rule="<script>alert(1)</script>")
    page = owner.page(page_of(agent))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_file_is_listed_and_saved_and_never_shown(owner, agent):
    kept = factories.artefact(Run.objects.get(), "page.html", b"<script>alert(1)</script>")
    address = reverse("runs:artefact", args=[agent.run_id, kept.sha256])
    page = owner.page(page_of(agent))
    assert f'href="{address}"' in page
    assert "25 B" in page
    answer = owner.client.get(address)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="page.html"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert b"".join(answer.streaming_content) == b"<script>alert(1)</script>"
