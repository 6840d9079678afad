"""Epochs through the wire: their cost and progress in the API and on the pages."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from tests.service.machines import MINUTE
from webapp.accounts.models import Token

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(client: Client, workspace: Any) -> Any:
    """Return a function that asks the API about a run."""
    _, plain = Token.make(workspace, "all", [Token.READ])

    def ask(run: Any) -> dict[str, Any]:
        answer = client.get(f"/api/v1/runs/{run}", headers={"Authorization": f"Bearer {plain}"})
        assert answer.status_code == 200, answer.content
        document: dict[str, Any] = answer.json()
        return document

    return ask


def cost_of_an_epoch(document: dict[str, Any]) -> Decimal | None:
    costs = [each for each in document["money"]["per_work"] if each["unit"] == "epochs"]
    return Decimal(costs[0]["usd"]) / costs[0]["amount"] if costs else None


def test_four_thousandths_of_an_epoch_cost_that_much_of_one(machine: Any, api: Any) -> None:
    node = machine()
    node.tells(0, "epoch", number=0)
    node.tells(0, "epoch_length", samples=32 * 1000)
    node.works(0, 40)
    document = api(node.ends(MINUTE).pk)
    assert document["work"]["epochs"] == pytest.approx(0.004)
    whole = Decimal(document["cost_usd"]) / Decimal("0.004")
    assert cost_of_an_epoch(document) == pytest.approx(whole, rel=Decimal("0.001"))


def test_an_epoch_of_unknown_length_has_no_amount_and_no_cost(machine: Any, api: Any) -> None:
    node = machine()
    node.tells(0, "epoch", number=0)
    node.works(0, 40)
    document = api(node.ends(MINUTE).pk)
    assert "epochs" not in document["work"]
    assert cost_of_an_epoch(document) is None


def test_a_running_run_is_projected_from_the_part_that_was_done(machine: Any, api: Any) -> None:
    began = time.time_ns() - 130 * 10**9
    node = machine(began_ns=began, declared={"parameters": {"epochs": 3}})
    node.tells(0, "epoch", number=0)
    node.tells(80, "epoch", number=1)
    node.works(0, 120)
    document = api(node.ends(120, state="").pk)
    assert document["work"]["epochs"] == pytest.approx(1.5)
    projected = document["money"]["projected"]
    assert (projected["done"], projected["planned"]) == (1.5, 3.0)
    assert projected["seconds_left"] == pytest.approx(120)
    cost = Decimal(document["cost_usd"])
    assert Decimal(projected["usd"]) == pytest.approx(2 * cost, rel=Decimal("0.001"))
