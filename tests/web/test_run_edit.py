"""The edit page of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from tests.html import read_page
from tests.web import factories
from tests.web.conftest import Person
from webapp.accounts.models import AuditEntry, Membership
from webapp.analysis.successive import verdicts
from webapp.runs import tags
from webapp.runs.models import Run


@pytest.fixture
def run(owner) -> Run:
    job = factories.job(owner.workspace)
    return factories.run(job, owner="ada", tags={"team": "vision", "sweep": "3"})


def said(**changes: str) -> dict[str, str]:
    known = {"note": "", "owner": "ada", "tags": "team=vision\nsweep=3", "baseline": "usual"}
    return known | changes


def edit(person: Person, run: Run, **changes: str):  # type: ignore[no-untyped-def]
    return person.client.post(reverse("runs:edit_run", args=[run.pk]), said(**changes))


def page(person: Person, run: Run) -> str:
    return person.page(reverse("dashboard:run", args=[run.pk]))


def test_what_is_said_is_shown_on_the_runs_page_and_written_down(owner, run):
    edit(
        owner, run, note="New loader.\r\n<b>Warm</b> cache.", owner="grace", tags="team=speech\n x "
    )
    shown = page(owner, run)
    assert "New loader.<br>&lt;b&gt;Warm&lt;/b&gt; cache." in shown
    assert "grace" in shown
    assert "team: speech" in shown
    assert "sweep" not in shown
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.subject) == ("run.edited", owner.user, str(run))
    assert entry.change["owner"] == ["ada", "grace"]
    assert entry.change["tags"] == [{"team": "vision", "sweep": "3"}, {"team": "speech", "x": ""}]
    edited = Run.objects.get(pk=run.pk)
    assert (edited.owner_is_edited, edited.edited_tags) == (True, ["sweep", "team", "x"])


def test_the_form_holds_what_is_known_and_saving_it_unchanged_changes_nothing(owner, run):
    shown = owner.page(reverse("runs:edit_run", args=[run.pk]))
    assert "team=vision\nsweep=3</textarea>" in shown
    assert 'value="ada"' in shown
    assert edit(owner, run).status_code == 302
    assert not AuditEntry.objects.exists()
    assert not Run.objects.get(pk=run.pk).owner_is_edited


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tags": "=lost"}, "has no key. Write key=value."),
        ({"tags": f"k={'v' * 121}"}, "longer than 120"),
        ({"tags": "\n".join(f"k{n}=1" for n in range(501))}, "501 tags"),
        ({"owner": "a" * 121}, "at most 120"),
        ({"note": "n" * 2001}, "at most 2000"),
        ({"note": "a\0b"}, "Null characters"),
        ({"baseline": "maybe"}, "Select a valid choice"),
    ],
)
def test_what_cannot_be_said_is_told_and_nothing_changes(owner, run, changes, told):
    answer = edit(owner, run, **changes)
    assert answer.status_code == 200
    assert told in read_page(answer)
    assert not AuditEntry.objects.exists()


WORDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=20)
KEYS = WORDS.filter(lambda word: word and "=" not in word)


@given(st.dictionaries(KEYS, WORDS))
def test_tags_that_are_written_as_lines_are_read_as_they_were(found):
    assert tags.from_lines(tags.as_lines(found)) == found


def judged_job(owner: Person, *costs: float) -> list[Run]:
    """Runs whose verdicts were written as each came in."""
    job = factories.job(owner.workspace)
    runs = []
    for cost in costs:
        run = factories.run(job, cost=f"{cost:.4f}", owner="ada")
        run.summary = replace(run.summary)
        run.save()
        verdicts.judge_run(run)
        runs.append(run)
    return runs


def verdict(run: Run) -> dict[str, object]:
    verdict = Run.objects.get(pk=run.pk).summary.verdict
    return {} if verdict is None else vars(verdict)


def test_an_excluded_run_has_no_verdict_and_later_ones_are_judged_without_it(owner):
    first, second, last = judged_job(owner, 1.0, 1.01, 1.0)
    assert verdict(last)["baseline_runs"] == 2
    edit(owner, first, tags="", baseline="excluded")
    assert verdict(first) == {}
    assert verdict(second)["rung"] == "baseline"
    assert verdict(last)["baseline_runs"] == 1
    assert ">excluded</span>" in page(owner, first)
    edit(owner, first, tags="", baseline="usual")
    assert verdict(first)["rung"] == "baseline"
    assert verdict(second)["baseline_runs"] == 1


def test_a_pinned_run_is_what_later_runs_are_compared_with(owner):
    first, second, third = judged_job(owner, 1.0, 2.0, 2.0)
    assert f"Compare with #{second.number}" in page(owner, third)
    edit(owner, first, tags="", baseline="pinned")
    assert f"Compare with pinned #{first.number}" in page(owner, third)
    assert verdict(third)["baseline_runs"] == 1
    assert verdict(third)["expected_seconds"] == pytest.approx(550 / 19_200, rel=0.01)


def test_viewers_see_no_way_to_edit_and_another_workspace_sees_no_run(owner, stranger, run):
    assert edit(stranger, run, owner="eve").status_code == 404
    Membership.objects.filter(user=owner.user).update(role="viewer")
    assert reverse("runs:edit_run", args=[run.pk]) not in page(owner, run)
    assert edit(owner, run, owner="eve").status_code == 403
    assert Run.objects.get(pk=run.pk).owner == "ada"
