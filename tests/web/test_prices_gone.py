"""A type that a region's list lacks keeps its prices; later evidence outweighs the list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.urls import reverse
from django.utils import timezone
from trimtab.wire import Declaration

from advisor.pricing.availability import availability
from advisor.pricing.catalogue import catalogue
from tests.web import factories
from tests.web.training import Training, upload
from webapp.advice.models import Recommendation
from webapp.analysis import tasks
from webapp.prices.bundled import sync_bundled
from webapp.prices.machines import catalogue_in
from webapp.prices.models import Machine
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
REGION = "us-east-1"
GONE = "c8i.xlarge"
PRICES_OF_IT = f"/prices/?q={GONE}&region={REGION}&service=ec2&option=on_demand"


class OnALargeMachine(Training):
    """Uses a core of eight and a few GiB of 64."""

    def declaration(self) -> Declaration:
        declared = super().declaration()
        node = declared.node
        node.instance_type, node.memory_bytes = "r5.2xlarge", 64 * 2**30
        return declared


def listed(name: str, gone_at: datetime | None = None, region: str = REGION) -> None:
    seen_at = (gone_at or timezone.now()) - timedelta(days=2)
    Machine.objects.create(
        provider="aws", region=region, instance_type=name, hardware=catalogue()[name].to_document(),
        first_seen_at=seen_at, last_seen_at=seen_at, gone_at=gone_at,
    )  # fmt: skip


def candidate(run: Run, name: str) -> dict[str, str]:
    rows = Recommendation.objects.filter(run=run, kind="change_instance_type")
    [match] = [c for row in rows for c in row.candidates if c["instance_type"] == name]
    return match


def test_a_type_that_a_region_no_longer_has_is_recommended_no_more(owner):
    sync_bundled()
    run = upload(owner.workspace, OnALargeMachine("train.py", minutes=10, vcpus=8))
    tasks.evaluate(str(run.pk))
    chosen = Recommendation.objects.get(run=run, kind="change_instance_type").change
    first = chosen["instance_type"]
    assert candidate(run, first)["rejected_because"] == ""

    listed(first, gone_at=timezone.now())
    later = upload(owner.workspace, OnALargeMachine("train.py", minutes=10, vcpus=8))
    tasks.evaluate(str(later.pk))

    assert "not in its provider's list since" in candidate(later, first)["rejected_because"]
    advised = Recommendation.objects.get(run=later, kind="change_instance_type")
    assert advised.change["instance_type"] != first


def ran_on(person, name: str, days_ago: int = 0, **more: str) -> Run:  # type: ignore[no-untyped-def]
    """Store a run of another job, on a machine of that type."""
    began = timezone.now() - timedelta(days=days_ago)
    run = factories.run(factories.job(person.workspace, f"other-{uuid4()}.py"), started_at=began)
    factories.node(run, **{"instance_type": name, "region": REGION} | more)
    return run


def advised_after(person, gone: str) -> tuple[str, str]:  # type: ignore[no-untyped-def]
    """Evaluate a run. Return why the gone type isn't proposed, and what to check before it is."""
    run = upload(person.workspace, OnALargeMachine("train.py", minutes=10, vcpus=8))
    tasks.evaluate(str(run.pk))
    found = candidate(run, gone)
    return found["rejected_because"], found["to_check"]


@pytest.mark.parametrize("name", ["c8i.xlarge", "c8i.4xlarge", "ml.c8i.xlarge"])
def test_a_run_of_another_job_shows_that_a_type_can_be_started(owner, name):
    sync_bundled()
    listed(GONE, gone_at=timezone.now())
    day = ran_on(owner, name).began_at.date()
    why_not, to_check = advised_after(owner, GONE)
    assert why_not == ""
    assert f"but a run used its family on {day}: check that your region still" in to_check

    run = Run.objects.get(job__name="train.py")
    page = owner.page(reverse("dashboard:run", args=[run.pk]))
    table = owner.page(reverse("advice:what_if", args=[run.pk]))
    for text in (page, table):
        assert to_check[1:] in text
    assert to_check in owner.page(PRICES_OF_IT)


def test_only_later_runs_in_the_region_count_and_never_anybody_elses(owner, stranger):
    sync_bundled()
    listed(GONE, gone_at=timezone.now())
    ran_on(stranger, GONE)
    ran_on(owner, GONE, days_ago=9)
    ran_on(owner, GONE, region="eu-west-1")
    ran_on(owner, "c7i.large")
    deleted = ran_on(owner, GONE)
    deleted.deleted_at = timezone.now()
    deleted.save()
    why_not, to_check = advised_after(owner, GONE)
    assert "and no later price or run is known" in why_not
    assert to_check == ""
    assert "and no later price or run is known" in owner.page(PRICES_OF_IT)


def test_what_is_gone_in_one_region_is_there_in_another():
    gone_at = datetime(2026, 10, 1, 12, tzinfo=UTC)
    listed("c5.large", gone_at=gone_at)
    listed("c5.large", region="eu-west-1")
    there, elsewhere = catalogue_in(REGION)["c5.large"], catalogue_in("eu-west-1")["c5.large"]
    assert not availability(there, gone_at.date()).is_offered
    assert availability(there, gone_at.date(), ran_on=gone_at.date()).is_offered
    assert availability(elsewhere, gone_at.date()).is_offered
    assert availability(there, gone_at.date() - timedelta(days=9)).is_offered


def test_a_type_that_is_offered_again_counts_and_so_does_one_that_is_new():
    unlisted = next(name for name, machine in catalogue().items() if machine.is_unlisted)
    listed(unlisted)
    document = catalogue()["c5.large"].to_document() | {"name": "c99.large"}
    Machine.objects.create(
        provider="aws", region=REGION, instance_type="c99.large", hardware=document,
        first_seen_at=timezone.now(), last_seen_at=timezone.now(),
    )  # fmt: skip
    today = timezone.now().date()
    for name in (unlisted, "c99.large"):
        known = availability(catalogue_in(REGION)[name], today)
        assert (known.is_offered, known.to_check) == (True, "")
    assert "c99.large" not in catalogue_in("eu-west-1")
