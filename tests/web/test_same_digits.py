"""One amount has the same digits on pages, in reports, in Markdown and from the command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.urls import reverse
from django.utils import timezone
from trimtab.cli import main
from trimtab.wire import Declaration, Segment

from advisor.costing.projection import Projection
from advisor.money import display_usd
from tests.web import factories
from tests.web.training import Training, upload
from webapp.accounts.models import Token
from webapp.advice.models import Recommendation
from webapp.analysis import tasks
from webapp.prices.bundled import sync_bundled
from webapp.prices.models import Price
from webapp.runs.models import Run

FORMATS = Path(__file__).parents[2] / "webapp/static/js/format.js"
PLAIN = str.maketrans({"−": "-", "\\": ""})


@pytest.fixture
def service(live_server, owner, monkeypatch) -> SimpleNamespace:
    monkeypatch.setenv("TRIMTAB_URL", live_server.url)
    monkeypatch.setenv("TRIMTAB_TOKEN", Token.make(owner.workspace, "script", [Token.READ])[1])
    return SimpleNamespace(owner=owner, job=factories.job(owner.workspace))


def say(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(words)
    return capsys.readouterr().out.translate(PLAIN)


def page(service: SimpleNamespace, address: str) -> str:
    text = service.owner.page(address)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)).translate(PLAIN)


def test_an_amount_per_unit_of_work_has_three_digits_everywhere(service, capsys):
    run = factories.run(service.job, cost="0.000000100")
    said = say(capsys, "cost", str(run.pk))
    assert "$0.00521 per 1,000,000,000 samples" in said
    addresses = [reverse(f"dashboard:{name}", args=[run.pk]) for name in ("run", "report")]
    for address in addresses:
        assert "Per billion samples $0.00521" in page(service, address)
    assert "$0.00521" in page(service, reverse("dashboard:job", args=[service.job.uuid]))


def test_the_exact_amounts_of_a_comparison_are_those_of_the_command(service, capsys):
    costs = ("1.234567891", "0.5")
    first, second = (factories.run(service.job, cost=cost) for cost in costs)
    for run in (first, second):
        factories.analysis(run)
    said = say(capsys, "compare", str(first.pk), str(second.pk))
    told = page(service, f"/compare/?a={first.pk}&b={second.pk}").partition("Exact amounts")[2]
    markdown = say(capsys, "compare", str(first.pk), str(second.pk), "--markdown")
    terms = re.findall(r"^ +(\w[\w ]*?) +[-+]\$([\d.]+)$", said, re.MULTILINE)
    assert terms
    assert re.search(r"#1 +\$1\.234567891\n", said)
    assert re.search(r"#2 +\$0\.50 ", said)
    for text in (told, markdown):
        assert "$1.234567891 - $" in text
        assert "= $0.50 " in text
        for name, usd in terms:
            assert f"${usd} {name}" in text


def test_the_command_tells_the_projection_of_the_page(service, capsys):
    projected = Projection("epochs", 3, 30, 540.0, Decimal("0.142"))
    summary = factories.summary(projected=projected)
    run = factories.run(service.job, state=Run.RUNNING, ended_at=None, summary=summary)
    run.last_sample_at = timezone.now()
    run.save()
    assert "$0.1420 projected at the end of the run" in say(capsys, "cost", str(run.pk))
    assert "$0.1420 projected in total" in page(service, reverse("dashboard:run", args=[run.pk]))


def test_a_price_of_tens_of_dollars_has_no_exponent(service):
    run = factories.run(service.job)
    factories.node(run)
    factories.costed(run)
    Price.objects.filter(costpart__run=run).update(usd_per_hour=Decimal(30))
    told = page(service, reverse("dashboard:run", args=[run.pk]))
    assert "$30.00 per hour" in told


class OnTooLargeAMachine(Training):
    """Keeps the GPU of a machine 35 % busy, and waits for nothing."""

    def declaration(self) -> Declaration:
        declared = super().declaration()
        node = declared.node
        node.instance_type, node.memory_bytes = "g5.2xlarge", 32 * 2**30
        node.vcpus = node.effective_cpus = self.vcpus
        return declared

    def segments(self) -> list[Segment]:
        segments = super().segments()
        for segment in segments:
            [steps] = segment.steps
            steps.data_wait_us = [0] * len(steps.data_wait_us or [])
        return segments


def test_open_savings_count_what_nobody_measured_at_its_low_end(owner) -> None:
    sync_bundled()
    run = upload(owner.workspace, OnTooLargeAMachine("train.py", minutes=10, gpus=1, vcpus=8))
    tasks.evaluate(str(run.pk))
    sure, guess = Recommendation.objects.filter(run=run)
    assert (sure.rung, guess.rung) == ("same", "prior")
    assert "The GPU was 35 % busy; g5.xlarge has 1 of the same model." in sure.evidence
    owner.client.post(reverse("advice:dismiss", args=[sure.uuid]), {"reason": "other"})
    low, mid = display_usd(guess.saving_low_usd), display_usd(guess.saving_usd)
    assert low != mid
    home = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", owner.page(reverse("dashboard:home"))))
    assert f"Open savings, per month {low} in 1 job" in home
    assert mid not in home


AMOUNTS = ["0", "0.00001", "0.00005", "0.5", "0.99994", "0.99995", "1", "1234.567", "-0.25", "-3"]


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js")
def test_charts_write_amounts_as_pages_do() -> None:
    program = f"import {{ usd }} from {json.dumps(str(FORMATS))};"
    program += f"console.log(JSON.stringify([{', '.join(AMOUNTS)}].map(usd)))"
    words = ["node", "--input-type=module", "-e", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [display_usd(Decimal(usd)) for usd in AMOUNTS]
