"""What a run's page asks of running agents, says of stops, and hands out of its files."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tests.service.uploads import FakeAgent
from tests.web import factories
from webapp.accounts.models import AuditEntry, Membership, Token
from webapp.directives import asking
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
BUTTON = "Profile 5 steps"


@pytest.fixture
def agent(owner) -> FakeAgent:
    """Of a running run that may be stopped."""
    made = FakeAgent(Client(), Token.make(owner.workspace, "agent", ["ingest"])[1])
    made.declare(allow_stop=True)
    made.put(made.segment(0))
    return made


def page_of(agent: FakeAgent) -> str:
    return reverse("runs:run", args=[agent.run_id])


def press(owner, agent: FakeAgent) -> str:
    address = reverse("directives:profile_run", args=[agent.run_id])
    return owner.client.post(address, follow=True).content.decode()


def ended(agent: FakeAgent, **data: object) -> None:
    last = agent.segment(1, last=True)
    last.events[-1].data |= data
    agent.put(last)


def test_the_button_reaches_the_agent_with_its_next_upload(owner, agent):
    assert BUTTON in owner.page(page_of(agent))
    assert "hears it with its next upload" in press(owner, agent)
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
    assert "nothing to profile" in press(owner, agent)
    assert not AuditEntry.objects.exists()


def test_the_page_says_that_a_rule_asked_and_which_one_ended_the_run(owner, agent):
    assert "asked" not in owner.page(page_of(agent))
    asking.stop(Run.objects.get(), "hung")
    assert "Asked to stop: The run hangs" in owner.page(page_of(agent))
    ended(agent, state="stopped", exit_code=143, rule="hung")
    page = owner.page(page_of(agent))
    assert "Stopped by a rule: The run hangs" in page
    assert 'href="/rules/hung/"' in page


def test_a_refusal_is_shown_with_its_reason(owner, agent):
    asked = asking.stop(Run.objects.get(), "hung")
    asked.answers.create(
        session_id=agent.session_id, outcome="refused", reason="started without --allow-stop"
    )
    page = owner.page(page_of(agent))
    assert "The agent would not stop the run: The run hangs" in page
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
