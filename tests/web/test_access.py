"""People who aren't members see nothing, not even that a page exists."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.urls import reverse

from tests.web import factories
from webapp.accounts.models import Token


def _addresses(run) -> dict[str, str]:  # type: ignore[no-untyped-def]
    other = factories.run(run.job)
    return {
        "job": reverse("dashboard:job", args=[run.job.uuid]),
        "run": reverse("dashboard:run", args=[run.pk]),
        "series": reverse("runs:series_json", args=[run.pk]) + "?names=host.cpu_busy_pct",
        "csv": reverse("runs:series_csv", args=[run.pk]) + "?names=host.cpu_busy_pct",
        "compare": reverse("dashboard:compare") + f"?a={run.pk}&b={other.pk}",
    }


PAGES = ["job", "run", "series", "csv", "compare"]


@pytest.fixture
def addresses(owner) -> dict[str, str]:
    return _addresses(factories.run(factories.job(owner.workspace)))


@pytest.mark.parametrize("page", PAGES)
def test_the_owner_sees_the_page(owner, addresses, page):
    assert owner.client.get(addresses[page]).status_code == 200


@pytest.mark.parametrize("page", PAGES)
def test_a_stranger_gets_404(stranger, addresses, page):
    assert stranger.client.get(addresses[page]).status_code == 404


@pytest.mark.parametrize("page", PAGES)
def test_somebody_who_is_not_signed_in_is_asked_to(anonymous, addresses, page):
    response = anonymous.get(addresses[page])

    assert response.status_code == 302
    assert response.url.startswith(reverse("accounts:sign_in"))


def test_a_comparison_with_the_run_of_a_stranger_is_404(owner, stranger):
    mine = factories.run(factories.job(owner.workspace))
    theirs = factories.run(factories.job(stranger.workspace))

    for a, b in [(mine, theirs), (theirs, mine)]:
        address = reverse("dashboard:compare") + f"?a={a.pk}&b={b.pk}"
        assert owner.client.get(address).status_code == 404


def test_a_file_is_its_own_runs_alone(owner, stranger):
    mine = factories.run(factories.job(owner.workspace))
    theirs = factories.artefact(factories.run(factories.job(stranger.workspace)))
    other = factories.artefact(factories.run(mine.job), "other.json", b"other")
    token = Token.make(owner.workspace, "script", [Token.READ])[1]
    headers = {"Authorization": f"Bearer {token}"}
    listed = owner.client.get(f"/api/v1/runs/{mine.pk}/artefacts", headers=headers)
    assert listed.json() == {"artefacts": []}
    for sha256 in (theirs.sha256, other.sha256):
        page = reverse("runs:artefact", args=[mine.pk, sha256])
        assert owner.client.get(page).status_code == 404
        answer = owner.client.get(f"/api/v1/runs/{mine.pk}/artefacts/{sha256}", headers=headers)
        assert answer.status_code == 404


def test_the_jobs_of_others_are_not_listed(owner, stranger):
    factories.job(stranger.workspace, "secret/train.py")
    factories.job(owner.workspace, "mine/train.py")

    page = owner.client.get(reverse("dashboard:jobs")).content

    assert b"mine/train.py" in page
    assert b"secret/train.py" not in page


def test_a_person_without_a_workspace_sees_no_job(client, owner):
    factories.job(owner.workspace, "secret/train.py")
    client.force_login(factories.member(email="new@example.org"))

    response = client.get(reverse("dashboard:jobs"), follow=True)

    assert b"No workspace" in response.content
    assert b"secret/train.py" not in response.content


@pytest.mark.parametrize(
    "address", ["/no-such-page", f"/runs/{UUID(int=1)}/", f"/jobs/{UUID(int=1)}/"]
)
def test_a_missing_page_is_a_404_in_our_design(owner, address):
    response = owner.client.get(address)

    assert response.status_code == 404
    assert b"Go to the home page" in response.content
