"""The one-time link: looked at by GET, used by POST, once."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from tests.web import factories
from webapp.accounts.models import Membership, SignInLink, Workspace
from webapp.accounts.setup import sign_in_link


@pytest.fixture
def link(owner) -> str:
    return urlsplit(sign_in_link(owner.workspace)).path


def test_it_signs_in_by_post_and_burns_the_link(link, anonymous):
    assert anonymous.get(link).status_code == 200
    assert anonymous.get("/").status_code == 302
    assert anonymous.post(link)["Location"] == "/"
    assert anonymous.get("/").status_code == 200
    again = Client().post(link)
    assert again.status_code == 410
    assert "used already" in again.content.decode()


def test_looking_at_a_link_does_not_use_it(link, anonymous):
    for _ in range(3):
        assert Client().get(link).status_code == 200
    assert anonymous.post(link).status_code == 302


def test_it_refuses_an_expired_link(link, anonymous):
    SignInLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    answer = anonymous.post(link)
    assert answer.status_code == 410
    assert "has expired" in answer.content.decode()
    assert anonymous.get("/").status_code == 302


def test_it_says_when_a_link_is_not_one(anonymous, db):
    answer = anonymous.get("/sign-in/not-a-secret/")
    assert answer.status_code == 410
    assert "not a sign-in link" in answer.content.decode()


def test_it_goes_back_to_the_page_that_was_asked_for(link, anonymous, owner):
    run = factories.run(factories.job(owner.workspace))
    anonymous.get(anonymous.get(f"/runs/{run.pk}/")["Location"])
    assert anonymous.post(link)["Location"] == f"/runs/{run.pk}/"


def test_it_goes_back_to_no_other_host(link, anonymous):
    anonymous.get("/sign-in/?next=https://elsewhere.example/")
    assert anonymous.post(link)["Location"] == "/"


def test_it_signs_out_by_post_only(owner):
    assert owner.client.get("/sign-out/").status_code == 405
    owner.client.post("/sign-out/")
    assert owner.client.get("/").status_code == 302


def test_it_needs_the_forms_own_secret(link):
    careful = Client(enforce_csrf_checks=True)
    assert careful.post(link).status_code == 403


def test_it_switches_to_another_workspace_of_the_same_person(owner):
    other = Workspace.objects.create(name="Second", is_sample_data=True)
    Membership.objects.create(workspace=other, user=owner.user)
    owner.client.post("/workspace/", {"workspace": str(other.uuid)})
    text = owner.client.get("/").content.decode()
    assert "Sample data" in text
    assert owner.client.get("/").wsgi_request.workspace == other


@pytest.mark.parametrize("chosen", ["theirs", "nonsense", ""])
def test_it_switches_to_no_workspace_of_others(owner, chosen):
    theirs = Workspace.objects.create(name="Theirs")
    value = str(theirs.uuid) if chosen == "theirs" else chosen
    assert owner.client.post("/workspace/", {"workspace": value}).status_code == 404
    assert owner.client.get("/").wsgi_request.workspace == owner.workspace


def test_the_link_of_a_blocked_person_is_refused(link, anonymous, owner):
    owner.user.is_active = False
    owner.user.save()
    assert anonymous.post(link).status_code == 410
    assert anonymous.get("/").status_code == 302


def test_the_sign_in_page_offers_no_mail_that_is_not_there(anonymous):
    text = anonymous.get("/sign-in/").content.decode()
    assert "manage.py welcome" in text
    assert 'type="email"' not in text
