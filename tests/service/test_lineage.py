"""Runs that load what other runs saved: continued trainings, and other uses of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.html import read_page
from tests.service.machines import MINUTE, Machine, analyse_what_is_due
from tests.web import factories
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db

Groups = list[list[str]]


class Fleet:
    """Runs of a job by their names. A step takes a minute."""

    def __init__(self, machine: Callable[..., Machine]) -> None:
        self._machine = machine
        self.nodes: dict[str, Machine] = {}
        self._ends: dict[str, tuple[float, str]] = {}

    def run(
        self,
        name: str,
        at: int,
        minutes: int,
        *,
        loads: str = "",
        first: int = 1,
        state: str = "failed",
        saves: tuple[int, ...] = (),
        **declared: Any,
    ) -> None:
        """Begins at minute `at`, loads a checkpoint `NAME@STEP`, and saves its own after steps."""
        job = declared.pop("job", "llm")
        node = self._machine(starts=at * MINUTE, machine_id=f"m-{name}", job=job, declared=declared)
        if loads:
            node.loads((at + 1) * MINUTE, loads, first - 1 or None)
        began = (at + 1) * MINUTE
        node.works(began, began + minutes * MINUTE, each=MINUTE)
        node.tells(began + MINUTE, "global_step", step=first)
        for step in saves:
            node.saves(began + (step - first + 1) * MINUTE, f"{name}@{step}")
        self.nodes[name], self._ends[name] = node, (began + minutes * MINUTE, state)

    def arrive(self, *names: str) -> None:
        for name in names:
            self.nodes[name].ends(*self._ends[name])
        analyse_what_is_due()

    def groups(self) -> Groups:
        """Return which runs make one training, each in the order of their names."""
        found: dict[Any, list[str]] = {}
        for name, node in sorted(self.nodes.items()):
            run = Run.objects.get(pk=node.run_id)
            found.setdefault(run.training_id or run.pk, []).append(name)
        return sorted(found.values())


@pytest.fixture
def fleet(machine: Any) -> Fleet:
    return Fleet(machine)


def interrupted(fleet: Fleet) -> None:
    """`a` is killed after 8 steps, `b` goes on from its 4th and is killed, `c` from `b`'s 6th. `d`
    tries something else from `a`'s 4th, after `c` has finished; `e` fine-tunes what `c` made."""
    fleet.run("a", 0, 8, saves=(4,))
    fleet.run("b", 20, 4, loads="a@4", first=5, saves=(6,))
    fleet.run("c", 40, 6, loads="b@6", first=7, state="finished", saves=(12,))
    fleet.run("d", 60, 9, loads="a@4", first=5, state="finished")
    fleet.run("e", 80, 3, loads="c@12", first=1, state="finished")


@pytest.mark.parametrize("order", ["abcde", "edcba", "dbeac"])
def test_any_order_of_arrival_joins_the_same_runs(fleet: Fleet, told: Any, order: str) -> None:
    interrupted(fleet)
    fleet.arrive(*order)
    assert fleet.groups() == [["a", "b", "c"], ["d"], ["e"]]
    minutes, document = told(fleet.nodes["a"].run_id)
    assert minutes["lost"] == pytest.approx(4 + 2, abs=0.2)
    assert (document["steps"], document["lost_steps"]) == (12, 6)
    assert not document["is_provisional"]
    assert [each["continues_by"] for each in document["attempts"]] == [
        None,
        "checkpoint",
        "checkpoint",
    ]


def test_a_deleted_run_is_continued_by_nobody_until_it_is_restored(
    fleet: Fleet, client: Client, workspace: Any
) -> None:
    interrupted(fleet)
    fleet.arrive(*"abcde")
    client.force_login(factories.member(workspace))
    middle = f"/runs/{fleet.nodes['b'].run_id}"

    client.post(f"{middle}/delete/")
    analyse_what_is_due()
    a, c, d = (Run.objects.get(pk=fleet.nodes[name].run_id) for name in "acd")
    assert (c.continues, c.training) == (None, None)
    assert d.continues == a, "nobody else has continued it"

    client.post(f"{middle}/restore/")
    analyse_what_is_due()
    assert fleet.groups() == [["a", "b", "c"], ["d"], ["e"]]


def test_another_job_and_another_workspace_have_trainings_of_their_own(
    fleet: Fleet, stranger: Any
) -> None:
    fleet.run("a", 0, 8, saves=(4,))
    fleet.run("b", 20, 4, loads="a@4", first=5, job="distilled")
    fleet.run("c", 40, 4, loads="a@4", first=5)
    fleet.nodes["c"].client, fleet.nodes["c"].token = Client(), stranger.token
    fleet.arrive("a", "b", "c")
    assert fleet.groups() == [["a"], ["b"], ["c"]]


def test_a_run_that_did_what_it_was_to_do_is_not_continued(fleet: Fleet) -> None:
    """Jobs that are chained are continued, if they go on where the one before ended."""
    planned = {"parameters": {"max_steps": "8"}}
    fleet.run("a", 0, 8, saves=(8,), state="finished", **planned)
    fleet.run("b", 20, 4, loads="a@8", first=9, state="finished", saves=(12,))
    fleet.run("c", 40, 4, loads="b@12", first=13, state="finished")
    fleet.arrive("a", "b", "c")
    assert fleet.groups() == [["a"], ["b", "c"]]


def test_a_persons_choice_stays(fleet: Fleet, client: Client, workspace: Any) -> None:
    fleet.run("a", 0, 8, saves=(4,))
    fleet.run("b", 20, 4, loads="a@4", first=5)
    fleet.arrive("a", "b")
    assert fleet.groups() == [["a", "b"]]
    client.force_login(factories.member(workspace))
    page = f"/runs/{fleet.nodes['b'].run_id}/training/"
    assert "loaded a checkpoint" in read_page(client.get(page))
    client.post(f"{page}split/")
    fleet.arrive("b", "a")
    assert fleet.groups() == [["a"], ["b"]]


def test_a_key_that_was_declared_stays(fleet: Fleet) -> None:
    """Runs that continue this one follow it."""
    fleet.run("a", 0, 8, saves=(4,))
    fleet.run("b", 20, 4, loads="a@4", first=5, saves=(6,))
    fleet.run("c", 40, 6, loads="b@6", first=7)
    fleet.arrive("a", "b", "c")
    fleet.nodes["b"].declared = {"training": "apart"}
    fleet.arrive("b")
    assert fleet.groups() == [["a"], ["b", "c"]]


def command(*arguments: str) -> list[str]:
    said = StringIO()
    call_command("join_trainings", *arguments, stdout=said)
    return said.getvalue().splitlines()


def test_a_command_joins_runs_that_no_checkpoint_tells_of(fleet: Fleet, told: Any) -> None:
    """Earlier agents recorded them so; the command's dry run says the same and changes nothing."""
    fleet.run("a", 0, 8)
    fleet.run("b", 20, 4, first=5)
    fleet.run("c", 40, 6, first=7, state="finished")
    fleet.run("d", 60, 4, first=13)
    fleet.arrive("a", "b", "c", "d")
    alone = [["a"], ["b"], ["c"], ["d"]]
    assert fleet.groups() == alone

    told_dry = command("--dry-run", "--workspace", "Ours")
    assert told_dry == [
        "Ours: llm #2 would be joined with llm #1: its steps continue that run's",
        "Ours: llm #3 would be joined with llm #2: its steps continue that run's",
        "2 runs would be joined.",
    ]
    assert fleet.groups() == alone
    assert command()[-1] == "2 runs joined."
    analyse_what_is_due()
    assert fleet.groups() == [["a", "b", "c"], ["d"]], "c had finished"
    assert told(fleet.nodes["b"].run_id)[1]["lost_steps"] == 6
    assert command() == ["0 runs joined."]


def test_a_command_says_why_it_joins_no_fine_tuning(fleet: Fleet) -> None:
    fleet.run("a", 0, 8, saves=(4,))
    fleet.run("b", 20, 4, loads="a@4")
    fleet.arrive("a", "b")
    (why, nothing) = command()
    assert "loaded a checkpoint of llm #1, not joined: its steps begin at 1" in why
    assert nothing == "0 runs joined."


def test_a_command_leaves_alone_what_a_person_split(
    fleet: Fleet, client: Client, workspace: Any
) -> None:
    fleet.run("a", 0, 8)
    fleet.run("b", 20, 4, first=5)
    fleet.arrive("a", "b")
    assert command("--workspace", str(workspace.uuid))[-1] == "1 run joined."
    fleet.arrive("a", "b")
    assert fleet.groups() == [["a", "b"]], "later analyses keep it"
    client.force_login(factories.member(workspace))
    client.post(f"/runs/{fleet.nodes['b'].run_id}/training/split/")
    assert command() == ["0 runs joined."]
    assert fleet.groups() == [["a"], ["b"]]
