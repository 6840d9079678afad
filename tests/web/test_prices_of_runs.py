"""The cost that the analysis of a run stores."""

from __future__ import annotations

from trimtab.wire import Declaration

from tests.web.training import Training, upload
from webapp.analysis import tasks
from webapp.ingest import declarations
from webapp.runs.models import Run


def analysed(run: Run) -> Run:
    tasks.evaluate(str(run.pk))
    return Run.objects.get(pk=run.pk)


def test_a_runs_phases_cost_together_what_the_run_costs(owner):
    run = analysed(upload(owner.workspace, Training("train.py", minutes=1)))
    phases = run.summary.phase_usd
    assert "train" in phases
    assert sum(phases.values()) == run.cost_usd
    assert run.summary.basis == "list"
    assert run.summary.list_usd == run.cost_usd


def test_a_running_run_that_says_how_much_it_will_do_says_what_it_will_cost(owner):
    training = Training("train.py", minutes=1, ended=False)
    declared = training.declaration()
    declared.parameters = {"max_steps": 3000}
    declarations.store_declaration(owner.workspace, declared)
    run = upload(owner.workspace, training)
    Run.objects.filter(pk=run.pk).update(parameters={"max_steps": 3000})
    run = analysed(run)
    projected = run.summary.projected
    assert (projected.unit, projected.done, projected.planned) == ("steps", 300, 3000)
    assert projected.usd > 9 * run.cost_usd


def test_an_ended_run_is_not_projected(owner):
    run = upload(owner.workspace, Training("train.py", minutes=1))
    Run.objects.filter(pk=run.pk).update(parameters={"max_steps": 3000})
    assert analysed(run).summary.projected is None


class OnHalfAMachine(Training):
    """Short, on a machine that was started for it, of which it was given one core of two."""

    def declaration(self) -> Declaration:
        declared = super().declaration()
        declared.node.effective_cpus, declared.node.owns_machine = 1, True
        return declared


def test_it_says_why_a_cost_is_not_price_by_time(owner):
    run = analysed(upload(owner.workspace, OnHalfAMachine("train.py", minutes=0.5)))
    assert run.summary.cost_notes == [
        "The run was allocated 1/2 of its machine and is charged for that share.",
        "30 s are charged beyond the time that the machines ran: the provider bills at least 60 s "
        "per start.",
    ]
    beside_it = analysed(upload(owner.workspace, Training("other.py", minutes=2)))
    assert beside_it.summary.cost_notes == [
        "Overlapping runs used the same machine, so its cost is split between them by their shares."
    ]


def test_a_run_that_had_its_machine_to_itself_needs_no_note(owner):
    run = analysed(upload(owner.workspace, Training("train.py", minutes=2)))
    assert run.summary.cost_notes == []
