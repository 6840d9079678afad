"""Error pages use the design and reveal nothing about other workspaces."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import Membership

TEMPLATES = settings.BASE_DIR / "webapp" / "templates"


@pytest.mark.parametrize(
    "name", ["400.html", "403.html", "403_csrf.html", "404.html", "500.html", "503.html"]
)
def test_every_error_page_can_be_rendered_with_nothing_at_hand(name):
    assert "Trimtab" in render_to_string(name)


def test_a_post_without_its_token_gets_our_403_and_the_way_out(owner):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner.user)

    answer = strict.post(reverse("accounts:sign_out"))

    assert answer.status_code == 403
    assert b"Access denied" in answer.content


def test_a_page_that_breaks_gets_our_500_and_shows_no_insides(owner, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("secret of the insides")

    monkeypatch.setattr("webapp.runs.scope.jobs_of", broken)
    owner.client.raise_request_exception = False

    answer = owner.client.get(reverse("dashboard:jobs"))

    assert answer.status_code == 500
    assert b"Server error" in answer.content
    assert b"secret of the insides" not in answer.content


def test_what_is_in_another_of_ones_workspaces_offers_to_switch(owner, stranger):
    run = factories.run(factories.job(stranger.workspace))
    row = factories.recommendation(run)
    address = reverse("dashboard:run", args=[run.pk]) + "?x=1"
    pages = [address, f"/jobs/{run.job.uuid}/", f"/recommendations/{row.uuid}/"]
    foreign = [owner.client.get(page) for page in pages]
    Membership.objects.create(workspace=stranger.workspace, user=owner.user)

    for page in pages:
        answer = owner.client.get(page)
        assert answer.status_code == 404
        assert "Switch to Elsewhere" in read_page(answer)
    switched = {"workspace": stranger.workspace.uuid, "next": address}
    landed = owner.client.post(reverse("accounts:switch_workspace"), switched, follow=True)

    assert landed.redirect_chain == [(address, 302)]
    assert landed.status_code == 200
    for answer in foreign:
        assert answer.status_code == 404
        assert "Elsewhere" not in read_page(answer)


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example/", "javascript:1"])
def test_a_switch_of_workspaces_leads_to_no_other_host(owner, elsewhere):
    chosen = {"workspace": owner.workspace.uuid, "next": elsewhere}

    answer = owner.client.post(reverse("accounts:switch_workspace"), chosen)

    assert answer["Location"] == reverse("dashboard:home")


def test_the_policy_allows_our_own_host_only(owner):
    policy = owner.client.get(reverse("dashboard:jobs"))["Content-Security-Policy"]

    assert "default-src 'self'" in policy
    assert "unsafe" not in policy


def test_the_api_knows_no_people(owner, django_assert_num_queries):
    with django_assert_num_queries(0):
        answer = owner.client.get("/api/v1/jobs")

    assert answer.status_code == 401
    assert "Vary" not in answer
    assert not answer.cookies
    assert answer["X-Content-Type-Options"] == "nosniff"


ALONE = ("mail.html", "report.html")
"""The templates that contain their styles: our content security policy doesn't apply to mails, and
a report is a file with a policy of its own."""
PAGES = sorted(path for path in TEMPLATES.rglob("*.html") if path.name not in ALONE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_template_has_inline_style_or_script_or_a_foreign_address(path):
    text = path.read_text(encoding="utf-8")

    assert not re.search(r"\sstyle=", text)
    assert not re.search(r"\son[a-z]+=", text)
    assert not re.search(r"<style|<script(?![^>]*\ssrc=)", text)
    assert not re.search(r"(src|href|action)=\"(https?:)?//", text)


def test_pages_are_kept_by_no_shared_cache(owner):
    run = factories.run(factories.job(owner.workspace))

    answer = owner.client.get(reverse("dashboard:run", args=[run.pk]))

    assert "Cookie" in answer["Vary"]
    assert answer["X-Frame-Options"] == "DENY"
