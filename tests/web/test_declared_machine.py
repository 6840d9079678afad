"""A machine that isn't the declared one: its price says so, advice waits, one click corrects it."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from django.urls import reverse
from trimtab.wire import Declaration, Gpu

from tests.web.training import Training, upload
from webapp.accounts.models import Token
from webapp.advice.models import Recommendation
from webapp.analysis import tasks
from webapp.prices.bundled import sync_bundled
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


class OnAnH200(Training):
    """A training declared on an H100 of Nebius; the driver reports an H200."""

    def declaration(self) -> Declaration:
        declared = super().declaration()
        node = declared.node
        node.provider, node.service, node.region = "nebius", "", "eu-north1"
        node.instance_type = "gpu-h100-sxm_1gpu-16vcpu-200gb"
        node.vcpus, node.effective_cpus, node.memory_bytes = 16, 16, 135_148_564_480
        node.gpus = [Gpu("NVIDIA H200", 150_754_820_096)]
        return declared


def test_the_price_carries_the_contradiction_until_a_click_corrects_it(owner: Any) -> None:
    sync_bundled()
    run = upload(owner.workspace, OnAnH200("train.py", minutes=2, gpus=1, vcpus=16))
    tasks.evaluate(str(run.pk))
    token = Token.make(owner.workspace, "read", [Token.READ])[1]
    address, headers = f"/api/v1/runs/{run.pk}", {"Authorization": f"Bearer {token}"}
    [note] = owner.client.get(address, headers=headers).json()["summary"]["cost_notes"]
    assert note.startswith("Price of the declared type: gpu-h100-sxm_1gpu-16vcpu-200gb is declared")
    assert not Recommendation.objects.filter(kind__in=["change_instance_type", "probe"]).exists()
    page = owner.page(reverse("dashboard:run", args=[run.pk]))
    assert "price of the declared type" in page
    before = Run.objects.get(pk=run.pk).cost_usd

    form = page.partition("What was measured fits")[0].rpartition("<form")[2]
    form += page.partition("What was measured fits")[2].partition("</form>")[0]
    said = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    assert said["instance_type"] == "gpu-h200-sxm_1gpu-16vcpu-200gb"
    owner.client.post(reverse("runs:correct_machine", args=[run.pk]), said)
    after = Run.objects.get(pk=run.pk)
    assert after.cost_usd / before == pytest.approx(Decimal("3.5") / Decimal("2.95"))
    assert "price of the declared type" not in owner.page(reverse("dashboard:run", args=[run.pk]))
    assert owner.client.get(address, headers=headers).json()["summary"]["cost_notes"] == []
