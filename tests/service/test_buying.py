"""The purchases that the advisor may propose: set over the API, advised after the next analysis."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from advisor.pricing.price import OWN_RATE
from tests.service.test_analysis import analysed, send
from tests.service.uploads import FakeAgent
from tests.web import factories
from webapp.accounts.models import AuditEntry, Membership, Token
from webapp.advice.models import Recommendation
from webapp.analysis.models import Analysis
from webapp.prices.models import Price
from webapp.runs.models import Node, Session

pytestmark = pytest.mark.django_db
PATH = "/api/v1/buying"


@pytest.fixture
def person(workspace):
    return factories.member(workspace)


@pytest.fixture
def call(client, workspace, person):
    def called(said: Any = None, scopes: tuple[str, ...] = (Token.READ, Token.WRITE)) -> Any:
        token = Token.make(workspace, "script", list(scopes), created_by=person)[1]
        bearer = {"Authorization": f"Bearer {token}"}
        if said is None:
            return client.get(PATH, headers=bearer)
        return client.put(PATH, said, content_type="application/json", headers=bearer)

    return called


def rate(workspace: Any, usd: str, **key: str) -> None:
    values = {"provider": "aws", "service": "ec2", "region": "us-east-1", "source": "ours"}
    Price.objects.create(
        workspace=workspace,
        usd_per_hour=Decimal(usd),
        valid_from=timezone.now() - timedelta(days=60),
        precedence=OWN_RATE,
        **values | {"instance_type": "c5.large"} | key,
    )


def advised() -> set[str]:
    return set(Recommendation.objects.filter(state="active").values_list("kind", flat=True))


def test_what_is_allowed_is_told_and_replaced(call, workspace) -> None:
    nothing = {"may_buy": [], "other_regions": []}
    assert call().json() == nothing
    wanted = {"may_buy": ["spot", "reserved"], "other_regions": ["us-west-2", "eu-west-1"]}
    answer = call(wanted)
    allowed = {"may_buy": ["reserved", "spot"], "other_regions": ["eu-west-1", "us-west-2"]}
    assert (answer.status_code, answer.json()) == (200, allowed)
    call(wanted)
    [entry] = AuditEntry.objects.filter(action="advice.changed", workspace=workspace)
    assert entry.change["may_buy"] == [[], ["reserved", "spot"]]
    assert call(nothing).json() == call().json() == nothing


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"may_buy": [], "other_regions": ["mars-1"]}, "other_regions"),
        ({"may_buy": ["later"], "other_regions": []}, "body.wanted.may_buy.0"),
        ({"may_buy": []}, "body.wanted.other_regions"),
    ],
)
def test_what_cannot_be_allowed_is_refused_with_the_field(call, workspace, said, field) -> None:
    answer = call(said)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    if field == "other_regions":
        assert "mars-1" in answer.json()["detail"]
        assert "us-east-1" in answer.json()["fix"]
    workspace.refresh_from_db()
    assert (workspace.may_buy, workspace.other_regions) == ([], [])


def test_only_owners_allow_it(call, person) -> None:
    person.memberships.update(role=Membership.MEMBER)
    refused = call({"may_buy": ["spot"], "other_regions": []})
    assert refused.status_code == 403
    assert "owner" in refused.json()["fix"]


def test_what_is_allowed_is_advised_again_and_withdrawn_with_it(
    call, agent: FakeAgent, workspace
) -> None:
    rate(workspace, "0.020", purchase_option="spot")
    rate(workspace, "0.040", region="eu-west-1")
    send(agent, 6)
    analysed(agent)
    before = advised()
    assert before.isdisjoint({"buy_spot", "other_region"})

    for allowed in (True, False):
        said = {"may_buy": ["spot"], "other_regions": ["eu-west-1"]}
        call(said if allowed else {name: [] for name in said})
        Analysis.objects.update(due_at=timezone.now())
        analysed(agent)
        found = {"buy_spot", "other_region"} if allowed else set()
        assert advised() == before | found


def test_a_run_in_the_other_region_claims_the_advice(call, agent: FakeAgent, workspace) -> None:
    rate(workspace, "0.040", region="eu-west-1")
    call({"may_buy": [], "other_regions": ["eu-west-1"]})
    send(agent, 6)
    analysed(agent)
    row = Recommendation.objects.get(kind="other_region")
    assert row.change == {"region": "eu-west-1"}

    second = FakeAgent(agent.client, agent.token, machine_id="machine-2")
    second.started_at_ns = agent.started_at_ns + 600 * 10**9
    send(second, 6)
    Node.objects.filter(machine_id="machine-2").update(region="eu-west-1")
    run = analysed(second)
    row.refresh_from_db()
    assert row.claimed_by == run
    assert row.realised_usd is not None
    assert row.realised_usd > 0


def test_a_commitment_is_told_by_what_all_jobs_used(call, agent: FakeAgent, workspace) -> None:
    """Another job kept a machine busy for most of the month; what is bought on spot, runs on
    another type or belongs to others doesn't count."""
    began = timezone.now() - timedelta(days=25)
    rate(workspace, "0.050", purchase_option="reserved")
    elsewhere = factories.workspace("Elsewhere")
    for of, more in [
        (workspace, {}),
        (workspace, {"purchase_option": "spot"}),
        (workspace, {"instance_type": "c5.xlarge"}),
        (elsewhere, {}),
    ]:
        job = factories.job(of, f"other{more}")
        run = factories.run(job, started_at=began, seconds=24 * 24 * 3600)
        length = 24 * 24 * 3600 * 1000
        node = factories.node(run, **more)
        Session.objects.create(
            id=uuid4(), node=node, boot_id="b", started_at=began, last_ms=length, ended_ms=length
        )
    send(agent, 6)
    call({"may_buy": ["reserved"], "other_regions": []})
    analysed(agent)
    row = Recommendation.objects.get(kind="commit")
    assert row.change == {"purchase_option": "reserved", "machines": 1}
    assert "Break-even: in use 59 % of the time; it was 80 %." in row.evidence
