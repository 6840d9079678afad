"""Pages agree with themselves: what stands twice is equal, and sentences go together."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from django.urls import reverse

from tests.web import factories
from tests.web.claims import contradictions, figures_of
from webapp.analysis.models import Judgement
from webapp.runs.models import Run

RUN_COUNT = 60
LEAST_FIGURES = 4
LABELS = ("effective", "initialise", "data_stall", "gpu_idle", "checkpoint", "idle_tail", "gap")
STATES = (Run.FINISHED, Run.FINISHED, Run.FINISHED, Run.FAILED, Run.STOPPED, Run.LOST)


@pytest.fixture
def run(owner: Any) -> Run:
    return random_run(factories.job(owner.workspace), random.Random(7))


def random_run(job: Any, chance: random.Random) -> Run:
    """Make a run of any length, price, state and waste, with findings and advice or without."""
    seconds = chance.choice([30.0, 200.0, 4000.0])
    cost = chance.choice([None, f"{chance.uniform(0.01, 90):.4f}"])
    run = factories.run(job, seconds=seconds, cost=cost, state=chance.choice(STATES))
    factories.node(run)
    parts = [chance.choice([0.0, 0.1, 1.0, 5.0]) * chance.random() for _ in LABELS]
    whole = sum(parts) + chance.random()
    shares = {name: part / whole for name, part in zip(LABELS, parts, strict=True) if part}
    factories.ledger(run, **{name: share * seconds * 0.999 for name, share in shares.items()})
    states = chance.choices(["passed", "insufficient_data", "fired"], [6, 4, 1], k=9)
    for number, state in enumerate(states):
        usd = None if cost is None else Decimal(cost) / 20
        more = {"waste_usd_low": usd, "waste_usd_high": usd} if state == Judgement.FIRED else {}
        factories.judgement(run, f"rule_{number}", state, **more)
    if run.state == Run.FINISHED and chance.random() < 0.4:
        _advise(run, chance)
    factories.analysis(run)
    return run


def _advise(run: Run, chance: random.Random) -> None:
    names = ("saving_low_usd", "saving_usd", "saving_high_usd")
    amounts: list[Decimal | None] = [None] * 3
    if run.cost_usd is not None:
        amounts = [run.cost_usd * Decimal(chance.randint(1, 9) + 10 * n) / 100 for n in range(3)]
    savings = dict(zip(names, amounts, strict=True))
    factories.recommendation(run, monthly_saving_usd=amounts[1], **savings)


def test_random_runs_never_contradict_themselves(owner: Any) -> None:
    job, chance = factories.job(owner.workspace), random.Random(20261128)
    wrong, count = [], 0
    for _ in range(RUN_COUNT):
        run = random_run(job, chance)
        for name in ("run", "report"):
            page = owner.page(reverse(f"dashboard:{name}", args=[run.pk]))
            count += len(figures_of(page))
            wrong += [f"{name} of run {run.number}: {each}" for each in contradictions(page)]
    wrong += contradictions(owner.page("/"))
    assert not wrong, "\n".join(wrong)
    assert count >= RUN_COUNT * LEAST_FIGURES


RUN_HEAD = "<dt>Cost</dt><dd>$10.00</dd><dt>Waste</dt><dd>$4.00 40 %</dd>"
LEDGER = "<tr><th>{}</th><td>40 %</td><td>{}</td></tr>"
FIRST = "<h2>Do this first</h2><p>Load ahead: saves {} of $10.00 a run.</p>"
TERMS = "<dt>Saving per run</dt><dd>$4.00 $3.00 to $5.00</dd>"


@pytest.mark.parametrize(
    ("html", "found"),
    [
        (RUN_HEAD + LEDGER.format("Start-up", "$3.00"), "waste: $4.00, but"),
        (RUN_HEAD + "<p>start-up: $3.00</p>" + LEDGER.format("Start-up", "$4.00"), "Start-up: $3"),
        (RUN_HEAD + "<tr><td>Total</td><td>100 %</td><td>$9.00</td></tr>", "cost of the run: $10"),
        (FIRST.format("$4.50") + TERMS, "saving a run of what is first: $4.00 and $4.50"),
        (FIRST.format("$4.00") + TERMS + "<p>$1.00 to $5.00 a run.</p>", "interval of what is"),
        ("<p>85 % waiting for data</p><p>waited for data for 80.9 % of 9 s</p>", "wait for data"),
        ("<p>4 of 21 rules had data.</p><p>5 of 23 rules had enough data.</p>", "rules that had"),
        (RUN_HEAD + "<p>No rule fired on this run.</p>", "without a word of the waste"),
        (RUN_HEAD + "<p>Nothing to change: no finding.</p>", "nothing to change, with large"),
        ("<p>No rule fired on this run.</p><span>x</span><p>2 of 9 fired</p>", "and some did"),
        ('<p class="notice-good">Good.</p><p id="failure">Out of memory</p>', "has a tick"),
        ('<p class="notice-good">Too short to judge: in 9 s</p>', "too short to judge has a tick"),
        ("<p>Nothing to change.</p><h2>Do this first</h2>", "and something to do first"),
        ("<p>Nothing needs you.</p><p>no price yet</p>", "and no price is known"),
        ("<p>Spend</p><dt>Cost</dt><dd>no price</dd><p>$0.00</p>", "an unknown cost is zero"),
        ("<p>Nothing was spent.</p><p>no price yet</p>", "nothing was spent"),
    ],
)
def test_each_kind_of_contradiction_is_found(html: str, found: str) -> None:
    assert any(found in each for each in contradictions(html)), contradictions(html)


def test_a_page_without_one_has_none() -> None:
    page = RUN_HEAD + "<p>start-up: $4.00</p>" + LEDGER.format("Start-up", "$4.00")
    page += FIRST.format("$4.00") + TERMS + "<p>$3.00 to $5.00 a run.</p>"
    assert contradictions(page) == []
    assert figures_of(page)["cost of Start-up"] == {"$4.00"}
