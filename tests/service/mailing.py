"""People, a run with advice for them, and the rounds that mail it; for tests of mail."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from django.test import Client

from tests.service.uploads import FakeAgent
from webapp import env
from webapp.accounts.models import Membership, Token, User, Workspace
from webapp.analysis.tasks import evaluate
from webapp.notify import delivery, tasks
from webapp.notify.models import Mail
from webapp.runs.models import Run


@dataclass(frozen=True)
class Team:
    """A workspace with one person of each role, all there before anything is found."""

    workspace: Workspace
    owner: User
    member: User
    viewer: User

    def agent(self, job: str = "digits") -> FakeAgent:
        return FakeAgent(Client(), Token.make(self.workspace, "agent", ["ingest"])[1], job=job)


def team() -> Team:
    # The runs of these tests cost cents.
    workspace = Workspace.objects.create(name="Vision team", least_mailed_usd=0)
    made = Team(
        workspace,
        _person(workspace, "ada@example.org", Membership.OWNER),
        _person(workspace, "bob@example.org", Membership.MEMBER),
        _person(workspace, "eve@example.org", Membership.VIEWER),
    )
    tasks.sweep()
    return made


def _person(workspace: Workspace, address: str, role: str) -> User:
    user = User.objects.create_user(address)
    Membership.objects.create(workspace=workspace, user=user, role=role)
    return user


def membership(user: User) -> Membership:
    return Membership.objects.get(user=user)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def advised_run(agent: FakeAgent, count: int = 6) -> Run:
    """Return a finished and analysed run whose loop waits for its data: that gives one
    recommendation.
    """
    agent.declare()
    for segment in agent.segments(count):
        assert agent.put(segment).status_code == 200
    evaluate(str(agent.run_id))
    return Run.objects.get(pk=agent.run_id)


def one_round() -> None:
    """Do what beat and the worker do every 15 s."""
    tasks.sweep()
    delivery.send(list(Mail.objects.values_list("pk", flat=True)))


def send_through(settings, monkeypatch: pytest.MonkeyPatch, url: str) -> None:  # type: ignore[no-untyped-def]
    """Let mail go where this EMAIL_URL says."""
    monkeypatch.setenv("EMAIL_URL", url)
    server = env.mail("EMAIL_URL")
    settings.EMAIL_BACKEND = server.backend
    settings.EMAIL_HOST, settings.EMAIL_PORT = server.host, server.port
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = server.user, server.password
    settings.EMAIL_USE_TLS, settings.EMAIL_USE_SSL = server.uses_starttls, server.uses_tls
    settings.EMAIL_TIMEOUT = server.timeout_seconds
