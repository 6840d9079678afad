"""What the analysis of a run writes down of its cost."""

from __future__ import annotations

from decimal import Decimal

from tests.web.training import Training, upload
from webapp.analysis import tasks
from webapp.ingest import accept
from webapp.runs.models import Run


def analysed(run: Run) -> Run:
    tasks.evaluate(str(run.pk))
    return Run.objects.get(pk=run.pk)


def test_a_runs_phases_cost_together_what_the_run_costs(owner):
    run = analysed(upload(owner.workspace, Training("train.py", minutes=1)))
    phases = {name: Decimal(usd) for name, usd in run.summary["phase_usd"].items()}
    assert "train" in phases
    assert sum(phases.values()) == run.cost_usd
    assert run.summary["basis"] == "list"
    assert Decimal(run.summary["list_usd"]) == run.cost_usd


def test_a_running_run_that_says_how_much_it_will_do_says_what_it_will_cost(owner):
    training = Training("train.py", minutes=1, ended=False)
    declared = training.declaration()
    declared.parameters = {"max_steps": 3000}
    accept.declaration(owner.workspace, declared)
    run = upload(owner.workspace, training)
    Run.objects.filter(pk=run.pk).update(parameters={"max_steps": 3000})
    run = analysed(run)
    projected = run.summary["projected"]
    assert (projected["unit"], projected["done"], projected["planned"]) == ("steps", 300, 3000)
    assert Decimal(projected["usd"]) > 9 * run.cost_usd


def test_an_ended_run_is_not_projected(owner):
    run = upload(owner.workspace, Training("train.py", minutes=1))
    Run.objects.filter(pk=run.pk).update(parameters={"max_steps": 3000})
    assert analysed(run).summary["projected"] is None
