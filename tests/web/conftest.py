from __future__ import annotations

from dataclasses import dataclass

import pytest
from django.test import Client

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import User, Workspace


@dataclass(frozen=True)
class Person:
    """Somebody who is signed in, and the workspace that they look at."""

    client: Client
    user: User
    workspace: Workspace

    def page(self, address: str) -> str:
        response = self.client.get(address)
        assert response.status_code == 200, (address, response.status_code)
        return read_page(response)


def _person(workspace: Workspace, email: str) -> Person:
    user = factories.member(workspace, email=email)
    client = Client()
    client.force_login(user)
    # The first request lists the session: no later page pays for that.
    client.get("/healthz")
    return Person(client, user, workspace)


@pytest.fixture(autouse=True)
def objects_in_a_folder_of_their_own(settings, tmp_path):
    settings.OBJECTS_URL = str(tmp_path / "objects")


@pytest.fixture(autouse=True)
def no_limits_of_sign_in(settings, monkeypatch):
    """Lift the limits: all tests come from one address and one person, and Redis outlives them."""
    monkeypatch.setattr("webapp.accounts.passwords.TRIES_A_MINUTE", 0)
    settings.ADDRESS_SIGN_INS = settings.ACCOUNT_SIGN_INS = settings.ADDRESS_PASSWORD_RESETS = 0


@pytest.fixture
def owner(db) -> Person:
    return _person(factories.workspace("Vision team"), "ada@example.org")


@pytest.fixture
def stranger(db) -> Person:
    return _person(factories.workspace("Elsewhere"), "eve@example.org")


@pytest.fixture
def anonymous(db) -> Client:
    return Client()
