"""The MFU of a run on its page, in its report and in the API."""

from __future__ import annotations

import html
from decimal import Decimal

import pytest
from django.test import Client

from tests.html import read_page
from tests.service.machines import MINUTE, Machine
from webapp.accounts.models import Token

pytestmark = pytest.mark.django_db

FLOPS = {"forward": 10**13, "backward": 2 * 10**13, "recomputed": 0, "samples": 32}
HALF = {"amp": "float16", "parameters": "float32", "tf32": False, "cudnn_tf32": False}
PARAMETERS = {"total": 124_439_808, "trainable": 124_439_808, "optimised": 124_439_808}
"""Six steps of 30 TFLOP in a minute, on a T4 of 65 TFLOP/s: 4.6 %."""


@pytest.fixture
def machine(owner):
    token = Token.make(owner.workspace, "agent", ["ingest", "read"])[1]
    training = Machine(Client(), token, tokens=2048)
    training.works(0, MINUTE)
    training.tells(1, "precision", **HALF)
    training.tells(1, "parameters", **PARAMETERS, embedding=0, tied=False)
    return training


def shown(response):
    return html.unescape(read_page(response))


def of_api(machine, run):
    headers = {"Authorization": f"Bearer {machine.token}"}
    return machine.client.get(f"/api/v1/runs/{run.pk}", headers=headers).json()


def test_the_mfu_and_the_price_of_tokens_are_the_same_everywhere(owner, machine):
    machine.tells(20, "flops", **FLOPS, tokens=2048, at_least=False)
    run = machine.ends(MINUTE)
    document = of_api(machine, run)
    computed = document["summary"]["model_flops"]
    assert computed["mfu"] == pytest.approx(6 * 3e13 / (60 * 65e12))
    assert (computed["source"], computed["parameters"]) == ("counted", 124_439_808)
    assert document["work"]["tokens"] == 6 * 2048
    prices = {each["unit"]: each for each in document["money"]["per_work"]}
    each = Decimal(document["cost_usd"]) / (6 * 2048)
    assert Decimal(prices["tokens"]["usd"]) / prices["tokens"]["amount"] == pytest.approx(each)
    for address in (f"/runs/{run.pk}/", f"/runs/{run.pk}/report/"):
        page = shown(owner.client.get(address))
        assert "4.6 %" in page
        assert "of Tesla T4's float16 peak, counted" in page
        assert "180 TFLOP, forward and backward" in page
        assert "124,439,808" in page


def test_less_than_all_is_said_to_be_at_least_that(owner, machine):
    machine.tells(20, "flops", **FLOPS, tokens=2048, at_least=True)
    page = shown(owner.client.get(f"/runs/{machine.ends(MINUTE).pk}/"))
    assert "at least 4.6 %" in page
    assert "at least 180 TFLOP" in page


def test_an_unknown_mfu_has_its_reason_and_is_never_0(owner, machine):
    machine.events[:] = machine.events[:1]
    machine.tells(1, "parameters", **PARAMETERS | {"total": None}, embedding=0, tied=False)
    run = machine.ends(MINUTE)
    assert of_api(machine, run)["summary"]["model_flops"]["mfu"] is None
    page = shown(owner.client.get(f"/runs/{run.pk}/"))
    assert "unknown: no step was counted, and the model's parameters aren't known" in page


def test_a_compiled_model_is_by_the_formula(owner, machine):
    run = machine.ends(MINUTE)
    computed = of_api(machine, run)["summary"]["model_flops"]
    assert (computed["source"], computed["flops"]) == ("formula", 6 * 124_439_808 * 6 * 2048)
    page = shown(owner.client.get(f"/runs/{run.pk}/"))
    assert "of Tesla T4's float16 peak, by 6 × parameters × tokens" in page
