"""Costs end as a fresh count gives them, whatever the order of uploads, neighbours and kills."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from tests.service.schedules import Schedule
from webapp.accounts.models import Membership, User, Workspace
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def person(workspace: Workspace) -> Client:
    user = User.objects.create_user("ada@example.org")
    Membership.objects.create(workspace=workspace, user=user, role=Membership.OWNER)
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.sampled(60)
@pytest.mark.parametrize("seed", range(200))
def test_nothing_is_left_to_count_again_after_a_schedule(
    seed: int, token: str, person: Client
) -> None:
    schedule = Schedule(seed, token, person)
    schedule.play()
    schedule.settle()
    said = StringIO()
    call_command("recount", "--check", stdout=said)
    present = Run.objects.present()
    assert f"{present.count()} run" in said.getvalue()
    assert "Left out" not in said.getvalue()
    assert present.count() == len(schedule.run_ids) - len(schedule.deleted)
    for run in present:
        assert run.cost_usd == schedule.expected_usd(run.pk), run.pk
