"""A machine that lists lack but the run used: its family stays a candidate, on page and API."""

from __future__ import annotations

import pytest
from django.urls import reverse
from trimtab.wire import Block, Declaration, Gpu

from tests.web.training import Training, upload
from webapp.advice.models import Recommendation
from webapp.analysis import tasks
from webapp.prices.bundled import sync_bundled

pytestmark = pytest.mark.django_db


class OnV100s(Training):
    """Uses one of the four GPUs of a p3.8xlarge in a region where nothing but the run shows that
    they can be started."""

    def declaration(self) -> Declaration:
        declared = super().declaration()
        node = declared.node
        node.region, node.instance_type = "us-west-2", "p3.8xlarge"
        node.vcpus, node.effective_cpus, node.memory_bytes = 32, 32, 244 * 2**30
        node.gpus = [Gpu("Tesla V100-SXM2-16GB", 16 * 2**30) for _ in range(4)]
        return declared

    def _block(self, seq: int) -> Block:
        block = super()._block(seq)
        idle = {f"gpu{n}.busy_pct": [0.0] * len(block.times_ms) for n in range(1, 4)}
        idle |= {f"gpu{n}.memory_used_bytes": [0] * len(block.times_ms) for n in range(1, 4)}
        return Block(block.times_ms, block.columns | idle)


def test_one_gpu_of_four_goes_to_the_small_machine_with_the_same_gpu(owner):
    sync_bundled()
    run = upload(owner.workspace, OnV100s("train.py", minutes=10, gpus=4, vcpus=32))
    tasks.evaluate(str(run.pk))
    advised = Recommendation.objects.get(run=run, kind="change_instance_type")
    assert advised.change == {"instance_type": "p3.2xlarge", "node_count": 1}
    assert not Recommendation.objects.filter(run=run, kind="probe").exists()

    page = owner.page(reverse("dashboard:run", args=[run.pk]))
    table = owner.page(reverse("advice:what_if", args=[run.pk]))
    for text in (page, table):
        assert "a run used its family on" in text
        assert "check that your region still offers it" in text.lower()
        assert "no longer available" not in text
