"""Three to six runs beside each other: figures with the best marked, and what differs."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from advisor.comparison.compare import RunFacts, compare
from advisor.comparison.several import compare_several
from tests.html import read_page
from tests.web import factories
from webapp.runs.models import Run

FACTS = RunFacts(
    number=1,
    job="train.py",
    state=Run.FINISHED,
    instance_types=("c5.large",),
    node_count=1,
    duration_seconds=600.0,
    cost_usd=Decimal("1"),
    work={"epochs": 10.0},
    workload={"entry_point": "train.py"},
    parameters={"lr": 0.1},
    quality={"val/accuracy": 0.9, "loss": 0.3},
)


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def address(runs: list[Run]) -> str:
    query = urlencode([("run", str(run.pk)) for run in runs])
    return f"{reverse('dashboard:compare')}?{query}"


def best(runs: list[RunFacts]) -> dict[str, list[int]]:
    """Return figure -> the places of the best."""
    rows = compare_several(runs).rows
    return {row.name: [n for n, cell in enumerate(row.cells) if cell.is_best] for row in rows}


def facts(number: int, **changes: Any) -> RunFacts:
    return replace(FACTS, number=number, **changes)


def test_the_best_of_each_figure_is_marked_where_one_side_is_better():
    runs = [
        facts(1, cost_usd=Decimal("3"), quality={"val/accuracy": 0.9, "loss": 0.3, "x": 1.0}),
        facts(2, duration_seconds=500.0, quality={"val/accuracy": 0.95, "loss": 0.4, "x": 2.0}),
        facts(3, cost_usd=Decimal("2"), quality={"val/accuracy": 0.8}),
    ]
    marked = best(runs)

    assert marked["cost"] == [1]
    assert marked["cost per epoch"] == [1]
    assert marked["duration"] == [1]
    assert marked["val/accuracy"] == [1]
    assert marked["loss"] == [0]
    assert marked["x"] == []
    assert marked["epochs"] == []


def test_without_every_price_none_is_known_to_be_the_cheapest():
    runs = [facts(1, cost_usd=Decimal(3)), facts(2), facts(3, cost_usd=None)]
    assert best(runs)["cost"] == []


def test_equal_figures_have_no_best_and_two_best_are_both_marked():
    assert best([facts(1), facts(2), facts(3)])["cost"] == []
    assert best([facts(1), facts(2), facts(3, cost_usd=Decimal(2))])["cost"] == [0, 1]


def test_costs_of_unequal_work_are_compared_by_the_unit_alone():
    runs = [facts(1), facts(2, work={"epochs": 1.0}, cost_usd=Decimal("0.5")), facts(3)]
    marked = best(runs)

    assert marked["cost"] == []
    assert marked["duration"] == []
    assert marked["cost per epoch"] == []


def test_another_workload_has_no_best_cost():
    runs = [facts(1), facts(2, workload={"entry_point": "other.py"}, cost_usd=Decimal("0.1"))]
    assert best([*runs, facts(3)])["cost"] == []


def test_an_unfinished_run_makes_no_cost_the_best():
    running = facts(2, state=Run.RUNNING, incomplete_because=("n1 hasn't reported its end",))
    several = compare_several([facts(1), replace(running, cost_usd=Decimal("0.1")), facts(3)])

    assert not several.are_comparable
    assert not any(cell.is_best for row in several.rows[:2] for cell in row.cells)


def test_a_running_run_that_grew_since_its_analysis_keeps_its_cost_of_work():
    """The phases and the cost are those of the first 400 s; the run is 1,000 s long by now."""
    ended = facts(1, phase_seconds={"initialise": 100.0, "train": 500.0})
    running = facts(
        2,
        state=Run.RUNNING,
        phase_seconds={"initialise": 100.0, "train": 300.0},
        duration_seconds=1000.0,
        work={"epochs": 5.0},
    )

    rows = {row.name: row for row in compare_several([ended, running]).rows}

    growing = rows["cost per epoch, without start-up"]
    assert [cell.text for cell in growing.cells] == ["$0.0833", "$0.1500"]


def test_only_settings_that_differ_are_listed_and_a_missing_one_is_none():
    runs = [facts(1), facts(2, parameters={"lr": 0.1, "seed": 3}), facts(3, node_count=2)]
    several = compare_several(runs)

    assert {each.name: each.values for each in several.settings} == {
        "node_count": (1, 1, 2),
        "seed": (None, 3, None),
    }
    assert several.unchanged_count == 2


@given(
    st.lists(
        st.tuples(
            st.none() | st.decimals("0.01", "1000", places=4),
            st.sampled_from([0.0, 1.0, 10.0]),
            st.none() | st.floats(1, 1e5),
        ),
        min_size=2,
        max_size=6,
    ),
    st.randoms(),
)
def test_each_is_compared_with_the_first_and_the_order_of_the_others_changes_nothing(made, chance):
    runs = [
        facts(number, cost_usd=usd, work={"epochs": epochs}, duration_seconds=seconds)
        for number, (usd, epochs, seconds) in enumerate(made)
    ]
    several = compare_several(runs)
    shuffled = runs[1:]
    chance.shuffle(shuffled)
    again = compare_several([runs[0], *shuffled])

    assert list(several.with_first) == [compare(runs[0], run) for run in runs[1:]]
    for row, other in zip(several.rows, again.rows, strict=True):
        by_run = {run.number: cell for run, cell in zip(several.runs, row.cells, strict=True)}
        assert {run.number: c for run, c in zip(again.runs, other.cells, strict=True)} == by_run
        assert len(row.cells) == len(runs)


@pytest.fixture
def runs(owner: Any) -> list[Run]:
    job = factories.job(owner.workspace)
    made = [factories.run(job, cost=cost) for cost in ("3", "1", "2")]
    for run in made:
        factories.node(run)
        factories.analysis(run)
        run.state = Run.FINISHED
        run.save()
    return made


def test_three_runs_are_shown_in_order_of_time_whatever_the_order_of_the_address(owner, runs):
    page = owner.page(address([runs[2], runs[0], runs[1]]))

    assert "Against #1" in text(page)
    assert re.findall(r'<th scope="col" class="number"><a href="/runs/([^/]+)/', page) == [
        str(run.pk) for run in runs
    ]
    assert len(re.findall(r'class="chip"', page)) == 3
    assert f"a={runs[0].pk}&amp;b={runs[2].pk}" in page


def test_a_cost_per_work_is_of_a_readable_amount_as_for_two_runs(owner, runs):
    addresses = (f"{reverse('dashboard:compare')}?a={runs[0].pk}&b={runs[1].pk}", address(runs))
    of_two, of_three = (
        re.findall(r"Cost per (\w+ \w+) \$([\d.]+)", text(owner.page(each))) for each in addresses
    )

    assert of_two[0] == of_three[0]
    assert of_two[0][0] in ("thousand samples", "million samples")


@pytest.mark.parametrize(
    ("costs", "written"),
    [
        (("0.20414", "0.20406", "0.3"), "$0.2041 best $0.2041 best $0.3000"),
        (("0.2041", "0.2039", "0.3"), "$0.2041 $0.2039 best $0.3000"),
    ],
)
def test_the_best_cost_per_work_is_decided_as_it_is_written(owner, costs, written):
    job = factories.job(owner.workspace)
    made = [factories.run(job, cost=cost, work={"samples": 1000.0}) for cost in costs]
    for run in made:
        factories.node(run)
        factories.analysis(run)

    shown = text(owner.page(address(made)))

    assert f"Cost per thousand samples {written} " in shown


def test_metrics_keep_the_names_that_their_training_gave_them(owner, runs):
    for run in runs:
        run.metrics = {"mAP": 0.5, "loss": 0.1}
        run.save()

    for page in (address(runs), f"{reverse('dashboard:compare')}?a={runs[0].pk}&b={runs[1].pk}"):
        names = re.findall(r'<th scope="row">([^<]+)</th>', owner.page(page))
        assert {"Cost", "Duration", "mAP", "loss"} <= set(names)


def test_removing_one_of_three_leads_to_the_comparison_of_two(owner, runs):
    (without,) = re.findall(r'class="chip" href="([^"]+)"', owner.page(address(runs)))[:1]

    answer = owner.client.get(without.replace("&amp;", "&"))

    assert answer.url == f"{reverse('dashboard:compare')}?a={runs[1].pk}&b={runs[2].pk}"


def test_runs_of_several_jobs_are_named_by_their_jobs(owner, runs):
    other = factories.run(factories.job(owner.workspace, "speech/train.py"))

    page = text(owner.page(address([*runs, other])))

    assert "speech/train.py #1" in page
    assert "belong to several jobs" in page


@pytest.mark.parametrize("count", [1, 7])
def test_too_few_or_too_many_are_refused_with_the_limits(owner, runs, count):
    job = runs[0].job
    chosen = [factories.run(job) for _ in range(count)]

    answer = owner.client.get(address(chosen))

    assert answer.status_code == 400
    assert f"{count} run" in text(read_page(answer))
    assert "two to 6" in text(read_page(answer))


def test_a_run_of_others_isnt_compared(owner, stranger, runs):
    theirs = factories.run(factories.job(stranger.workspace))

    assert owner.client.get(address([*runs[:2], theirs])).status_code == 404
    query = address(runs) + f"&run={uuid4()}"
    assert owner.client.get(query).status_code == 404
