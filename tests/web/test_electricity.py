"""The electricity of own machines, from the page of rates to the cost of a run."""

from __future__ import annotations

import re
from decimal import Decimal
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from django.urls import reverse
from trimtab.cli import main
from trimtab.wire import Block, Declaration, Gpu

from tests.html import read_page
from tests.web.conftest import Person
from tests.web.training import Training, upload
from webapp.accounts.models import Token
from webapp.analysis import tasks
from webapp.analysis.models import CostPart
from webapp.runs.models import Run

RATES, ADD = "/settings/rates/", reverse("prices:add_rate")
RATE = {
    "service": "gpu_hour",
    "provider": "on_premises",
    "instance_type": "",
    "region": "",
    "purchase_option": "on_demand",
    "usd_per_hour": "1.80",
    "usd_per_kwh": "0.25",
    "pue": "1.4",
    "valid_from": "2026-01-01",
    "valid_to": "",
}
WATTS = 600


class OnOwnGpus(Training):
    """Two GPUs that take 600 W each."""

    is_measured = True

    def declaration(self) -> Declaration:
        declared = super().declaration()
        node = declared.node
        node.provider = node.service = node.instance_type = node.region = ""
        node.gpus = [Gpu("NVIDIA H100 80GB HBM3", 80 * 2**30) for _ in range(self.gpus)]
        return declared

    def _block(self, seq: int) -> Block:
        block = super()._block(seq)
        if not self.is_measured:
            return block
        taken = [seq * 10 + at / 1000 for at in block.times_ms]
        for gpu in range(self.gpus):
            block.columns[f"gpu{gpu}.power_watts"] = [WATTS] * len(taken)
            counter = [int(10**9 + WATTS * seconds) for seconds in taken]
            block.columns[f"gpu{gpu}.energy_joules_total"] = counter
        return block


def analysed(owner: Person, is_measured: bool = True, minutes: float = 5) -> Run:
    training = OnOwnGpus("train.py", minutes=minutes, gpus=2, machine=f"machine-{minutes}")
    training.is_measured = is_measured
    run = upload(owner.workspace, training)
    tasks.evaluate(str(run.pk))
    return Run.objects.get(pk=run.pk)


def text(owner: Person, address: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", owner.page(address))))


@pytest.fixture
def service(live_server: Any, owner: Person, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    token = Token.make(owner.workspace, "script", [Token.READ])[1]
    monkeypatch.setenv("TRIMTAB_URL", live_server.url)
    monkeypatch.setenv("TRIMTAB_TOKEN", token)
    return SimpleNamespace(owner=owner, headers={"Authorization": f"Bearer {token}"})


def told_everywhere(service: SimpleNamespace, run: Run, capsys: Any) -> tuple[Any, list[str]]:
    """The API's electricity; and the texts of the page, the report, the command, its Markdown."""
    answer = service.owner.client.get(f"/api/v1/cost?run={run.pk}", headers=service.headers)
    pages = [reverse(f"dashboard:{name}", args=[run.pk]) for name in ("run", "report")]
    texts = [text(service.owner, address) for address in pages]
    for options in ([], ["--markdown"]):
        main(["cost", str(run.pk), *options])
        texts.append(capsys.readouterr().out)
    return answer.json()["money"]["electricity"], texts


def test_measured_energy_is_in_the_cost_with_a_line_of_its_own(service, capsys) -> None:
    assert service.owner.client.post(ADD, RATE).status_code == 302
    assert "$0.25 per kWh, PUE 1.4" in text(service.owner, RATES)
    run = analysed(service.owner)
    told, texts = told_everywhere(service, run, capsys)
    hours = Decimal(5) / 60
    kwh = 2 * WATTS * hours / 1000
    assert Decimal(told["joules"]) == pytest.approx(kwh * 3_600_000, rel=Decimal("0.01"))
    usd = Decimal(told["joules"]) / 3_600_000 * Decimal("1.4") * Decimal("0.25")
    assert Decimal(told["usd"]) == round(usd, 9)
    machines = 2 * Decimal("1.80") * hours
    assert run.cost_usd == pytest.approx(machines + usd, abs=Decimal("1e-8"))
    shown = f"${round(usd, 4)}"
    words = "kWh of the GPUs; $0.25 per kWh, PUE 1.4; the hosts' power isn't measured"
    assert "$1.80 per hour, any region, on demand" in texts[0]
    for each in texts:
        assert re.search(rf"[Oo]f which electricity.{{0,200}}{re.escape(shown)}", each), each
        assert words in each
    assert sum(part.usd for part in CostPart.objects.filter(run=run)) == run.cost_usd


def test_power_that_was_not_measured_is_never_nothing(service, capsys) -> None:
    service.owner.client.post(ADD, RATE)
    run = analysed(service.owner, is_measured=False)
    told, texts = told_everywhere(service, run, capsys)
    assert (told["usd"], told["joules"], told["measured_share"]) == (None, None, 0)
    assert run.cost_usd == pytest.approx(2 * Decimal("1.80") * 5 / 60, abs=Decimal("1e-9"))
    for each in texts:
        assert "not measured" in each
        assert "no power of a GPU was measured, so the cost lacks it" in each


def test_a_rate_without_electricity_has_no_line(service, capsys) -> None:
    service.owner.client.post(ADD, RATE | {"usd_per_kwh": "", "pue": ""})
    told, texts = told_everywhere(service, analysed(service.owner), capsys)
    assert told is None
    assert not any("lectricity" in each for each in texts)


def test_a_rate_that_is_entered_later_prices_what_was_measured(owner: Person) -> None:
    run = analysed(owner)
    assert run.cost_usd is None
    Run.objects.filter(pk=run.pk).update(raw_deleted_at=run.ended_at)
    owner.client.post(ADD, RATE)
    tasks.evaluate(str(run.pk))
    run.refresh_from_db()
    assert run.summary.electricity is not None
    assert run.summary.electricity.joules == pytest.approx(2 * WATTS * 300, rel=0.01)


def test_another_workspaces_rate_never_counts(owner: Person, stranger: Person) -> None:
    stranger.client.post(ADD, RATE | {"usd_per_kwh": "99"})
    assert stranger.workspace.prices.count() == 1
    run = analysed(owner)
    assert (run.cost_usd, run.summary.electricity) == (None, None)
    owner.client.post(ADD, RATE)
    tasks.evaluate(str(run.pk))
    run.refresh_from_db()
    assert run.summary.electricity is not None
    assert run.summary.electricity.rates == ["$0.25 per kWh, PUE 1.4"]
    assert "$99" not in text(owner, RATES)


@pytest.mark.parametrize(
    ("entered", "reason"),
    [
        ({"pue": "0.9"}, "pue is 0.9; it must be between 1 and 10"),
        ({"usd_per_kwh": "cheap"}, "usd_per_kwh is 'cheap'; write it as 1.25"),
        ({"usd_per_kwh": ""}, "pue needs usd_per_kwh; enter both, or leave both empty"),
        ({"service": "ec2", "instance_type": "g5.xlarge"}, "a cloud's price includes it"),
    ],
)
def test_what_is_no_rate_is_refused_with_the_reason(
    owner: Person, entered: dict[str, str], reason: str
) -> None:
    answer = owner.client.post(ADD, RATE | entered)
    assert reason in unescape(read_page(answer))
    assert not owner.workspace.prices.exists()


def test_a_rate_with_other_electricity_from_the_same_day_is_another_rate(owner: Person) -> None:
    owner.client.post(ADD, RATE)
    answer = owner.client.post(ADD, RATE | {"usd_per_kwh": "0.30"})
    assert "already has a rate from 2026-01-01" in read_page(answer)
    assert owner.client.get(reverse("prices:rates_csv")).getvalue().decode().endswith("0.25,1.4\n")


@pytest.mark.parametrize("usd_per_hour", ["0", "1.80"])
def test_two_runs_costs_are_divided_by_cause_with_their_electricity(
    service: SimpleNamespace, usd_per_hour: str
) -> None:
    owner = service.owner
    owner.client.post(ADD, RATE | {"usd_per_hour": usd_per_hour})
    short, long = analysed(owner), analysed(owner, minutes=10)
    address = f"/api/v1/compare?a={short.pk}&b={long.pk}"
    answer = owner.client.get(address, headers=service.headers).json()
    usd = {term["name"]: Decimal(term["usd"]) for term in answer["attribution"]}
    assert short.cost_usd is not None
    assert long.cost_usd is not None
    assert sum(usd.values()) == long.cost_usd - short.cost_usd
    assert usd["duration"] == pytest.approx(short.cost_usd, rel=Decimal("0.01"))
    assert abs(usd["electricity"]) < usd["duration"] / 100
    page = text(owner, f"{reverse('dashboard:compare')}?a={short.pk}&b={long.pk}")
    assert "electricity" in page.lower()
