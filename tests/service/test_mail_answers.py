"""The mail says about a run what its page and the API say."""

from __future__ import annotations

import re
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.core import mail as django_mail
from django.urls import reverse
from trimtab.wire import Block

from tests.html import read_page
from tests.service import mailing
from tests.web.test_declared_machine import OnAnH200
from tests.web.test_machines_to_check import OnV100s
from tests.web.training import Training, upload
from webapp.accounts.models import Token
from webapp.advice.models import Recommendation
from webapp.analysis import tasks
from webapp.prices.bundled import sync_bundled
from webapp.templatetags import shown

pytestmark = pytest.mark.django_db
FIX = "Load data in parallel and ahead of the training loop"


class Starved(Training):
    """Four GPUs at 20 %, because the loop waits for its data in 75 % of the time."""

    busy_share, wait_share = 0.2, 0.75

    def _block(self, seq: int) -> Block:
        block = super()._block(seq)
        count = len(block.times_ms)
        busy = [100.0 if n % 5 < 5 * self.busy_share else 0.0 for n in range(count)]
        return Block(block.times_ms, block.columns | {f"gpu{n}.busy_pct": busy for n in range(4)})

    def segments(self) -> list[Any]:
        segments = super().segments()
        for segment in segments:
            [steps] = segment.steps
            each_us = int(self.wait_share * 200_000)
            steps.data_wait_us = [each_us] * len(steps.data_wait_us or [])
        return segments


class Fed(Starved):
    """The same loop with a fixed loader: the GPUs are at 80 %."""

    busy_share, wait_share = 0.8, 0.0


@pytest.fixture
def team() -> mailing.Team:
    sync_bundled()
    return mailing.team()


def told(team: mailing.Team, training: Training) -> tuple[str, list[str], dict[str, Any], str]:
    """Return the mail's subject and both of its parts, the run in the API, and its page; without
    markup and line breaks.
    """
    run = upload(team.workspace, training)
    tasks.evaluate(str(run.pk))
    mailing.one_round()
    client = mailing.signed_in(team.owner)
    page = read_page(client.get(reverse("dashboard:run", args=[run.pk])))
    token = Token.make(team.workspace, "read", [Token.READ])[1]
    headers = {"Authorization": f"Bearer {token}"}
    document = client.get(f"/api/v1/runs/{run.pk}", headers=headers).json()
    of_job = f"/api/v1/jobs/{document['job']['id']}/recommendations"
    whole = {
        each["id"]: each for each in client.get(of_job, headers=headers).json()["recommendations"]
    }
    document["recommendations"] = [whole[each["id"]] for each in document["recommendations"]]
    if not django_mail.outbox:
        return "", [], document, plain(page)
    sent = django_mail.outbox[0]
    parts = [str(sent.body), str(sent.alternatives[0].content)]
    return sent.subject, [plain(part) for part in parts], document, plain(page)


def plain(text: str) -> str:
    without_styles = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", without_styles)))


def assert_same(parts: list[str], document: dict[str, Any], page: str) -> None:
    """Check that the mail is about the page's first recommendation, with its figures and
    sentences.
    """
    first = document["recommendations"][0]
    said = [first["title"], *first["evidence"], *first["assumptions"]]
    said += [
        shown.usd(Decimal(first["estimated"]["usd"])),
        shown.usd(Decimal(document["cost_usd"])),
    ]
    said += document["summary"]["cost_notes"]
    for text in [*parts, page]:
        for sentence in said:
            assert plain(sentence) in text, sentence


def test_one_gpu_of_four_goes_to_the_small_machine_with_the_same_gpu(team):
    subject, parts, document, page = told(team, OnV100s("train.py", minutes=10, gpus=4, vcpus=32))
    assert "Run on 1 × p3.2xlarge instead of p3.8xlarge (saves $1.53 a month)" in subject
    assert_same(parts, document, page)
    for part in parts:
        assert "p3.2xlarge costs $3.06 per hour instead of $12.24" in part
        assert "a run used its family on" in part
        assert "check that your region still offers it" in part


def test_the_starved_run_costs_less_than_either_fixed_or_switched(team):
    subject, parts, document, page = told(team, Starved("train.py", minutes=10, gpus=4, vcpus=48))
    assert "Run on 1 × g5.xlarge instead of g5.12xlarge" in subject
    assert_same(parts, document, page)
    assert [each["title"] for each in document["recommendations"]][1] == FIX
    for part in parts:
        said = re.search(
            r"Of \$([\d.]+) a run, the other machine alone saves \$([\d.]+), the loader's fix "
            r"alone saves \$([\d.]+), both save \$(\d+\.\d+)\.",
            part,
        )
        assert said is not None
        cost, machine, fix, both = map(Decimal, said.groups())
        # 4 GPUs at 20 % are at work for 0.8 GPU-times 10 minutes.
        gpu_work = Decimal("0.8") * Decimal("1.006") / 6
        assert fix < machine < both
        assert cost - both >= gpu_work * Decimal("0.999")


def test_the_fixed_run_is_told_to_keep_its_four_gpus(team):
    subject, _, document, _ = told(team, Fed("train.py", minutes=10, gpus=4, vcpus=48))
    assert subject == ""
    assert document["recommendations"] == []


def test_the_price_of_a_machine_that_is_another_one_carries_that_in_the_mail(team):
    subject, parts, document, page = told(team, OnAnH200("train.py", minutes=2, gpus=1, vcpus=16))
    [note] = document["summary"]["cost_notes"]
    assert note.startswith("Price of the declared type: gpu-h100-sxm_1gpu-16vcpu-200gb is declared")
    assert note.endswith("NVIDIA H200 was found instead of H100.")
    assert_same(parts, document, page)
    assert subject == f"train.py: {FIX}"


def test_what_only_public_measurements_promise_is_at_least_in_both_parts(team):
    run = mailing.advised_run(team.agent())
    Recommendation.objects.filter(run=run).update(rung="prior", monthly_saving_usd=Decimal(12))
    mailing.one_round()
    sent = django_mail.outbox[0]
    for part in (str(sent.body), str(sent.alternatives[0].content)):
        assert "at least $12.00" in plain(part)
