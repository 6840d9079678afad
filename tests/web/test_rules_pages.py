"""The pages of rules, and setting presets and parameters on them."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from rules.engine import rejudge
from rules.registry import all_rules
from rules.rule import Numbers
from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import AuditEntry, Membership
from webapp.analysis.models import Judgement
from webapp.rulebook import rejudging
from webapp.rulebook.models import Rejudging
from webapp.runs.models import Job, Run
from webapp.thresholds.models import ParameterValue

PAGE = "/settings/rules/"
RULE = all_rules()["startup_breakdown"]


@pytest.fixture
def job(owner) -> Job:
    return factories.job(owner.workspace)


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def _effects(page: str) -> str:
    match = re.search(r'id="effects-title".*?</section>', page, re.DOTALL)
    return _text(match[0]) if match else ""


def _numbers(wait_share_pct: float) -> dict[str, Any]:
    """Return what `input_bound` stores of a run of 600 s."""
    values = {
        "wait_share_pct": wait_share_pct,
        "wait_seconds": 6 * wait_share_pct,
        "step_seconds": 600.0,
        "run_seconds": 600.0,
        "steps_count": 300.0,
        "measured_share_pct": 100.0,
    }
    return {"values": values, "windows": [], "missing": []}


def _judged(job: Job, wait_share_pct: float, **run: Any) -> Judgement:
    rule = all_rules()["input_bound"]
    made = factories.costed(_run(job, **run))
    factories.ledger(made, data_stall=made.duration.total_seconds() / 2)
    judged = rejudge(rule, Numbers.from_document(_numbers(wait_share_pct)))
    return factories.judgement(
        made,
        state=judged.verdict.state,
        values=dict(judged.values),
        values_hash=judged.values_hash,
        rule_version=rule.version,
        numbers=_numbers(wait_share_pct),
    )


def _run(job: Job, **more: Any) -> Run:
    run = factories.run(job, **more)
    factories.node(run)
    return run


def _post(person, address: str = PAGE, **fields: str) -> str:  # type: ignore[no-untyped-def]
    form = {"preset": "balanced"} | {k.replace("__", "."): v for k, v in fields.items()}
    return read_page(person.client.post(address, form, follow=True))


def test_every_rule_has_a_page_with_all_of_its_sections_and_parameters(owner):
    index = owner.page("/rules/")
    for rule in all_rules().values():
        assert f'href="/rules/{rule.id}/"' in index
        assert f"<h2>{rule.category.title}</h2>" in index
        page = _text(owner.page(f"/rules/{rule.id}/"))
        assert rule.category.title in page
        for title in ("What it checks", "Why it costs money", "When it is wrong", "Sources"):
            assert title in page
        assert all(parameter.name in page for parameter in rule.parameters)
        assert "`" not in page
        assert "**" not in page


def _rule_line(person, rule: str) -> str:  # type: ignore[no-untyped-def]
    """Return the words of a rule's line in the list."""
    [line] = re.findall(
        rf'<tr>(?:(?!</tr>).)*href="/rules/{rule}/".*?</tr>', person.page("/rules/"), re.DOTALL
    )
    return _text(line)


def test_the_list_of_rules_says_which_runs_each_could_judge_and_the_money_behind_it(owner, job):
    fired = _judged(job, 40)
    fired.waste_usd_low, fired.waste_usd_high = Decimal("1.50"), Decimal("3.25")
    fired.save()
    unpriced = _judged(job, 60)
    unpriced.waste_usd_low = unpriced.waste_usd_high = None
    unpriced.waste_seconds_high = 12.0
    unpriced.save()
    lacking = _judged(job, 70)
    lacking.state = Judgement.INSUFFICIENT
    lacking.save()
    line = _rule_line(owner, "input_bound")
    assert "2 of 3" in line
    assert "$1.50 to $3.25" in line
    assert "at least: 1 without a price" in line
    untouched = _rule_line(owner, "hung")
    assert "$" not in untouched


def test_findings_without_any_price_have_no_sum(owner, job):
    unpriced = _judged(job, 60)
    unpriced.waste_usd_low = unpriced.waste_usd_high = None
    unpriced.waste_seconds_high = 12.0
    unpriced.save()
    assert "no price" in _rule_line(owner, "input_bound")


def test_the_runs_of_others_count_in_no_list_of_rules(stranger, job):
    _judged(job, 40)
    assert " of 1" not in _rule_line(stranger, "input_bound")


def test_a_rule_that_is_none_has_no_page(owner):
    assert owner.client.get("/rules/no_such_rule/").status_code == 404


def test_a_rule_s_page_lists_the_runs_in_which_it_fired(owner, stranger, job):
    row = _judged(job, 40)
    address = reverse("dashboard:run", args=[row.run_id])
    assert address in owner.page("/rules/input_bound/")
    assert address not in stranger.page("/rules/input_bound/")
    assert "No findings" in stranger.page("/rules/input_bound/")


def test_a_run_s_page_leads_to_the_rules(owner, job):
    row = _judged(job, 40)
    assert 'href="/rules/input_bound/"' in owner.page(reverse("dashboard:run", args=[row.run_id]))


def test_it_tells_before_anything_is_saved_what_would_have_fired(owner, job):
    for share in (12, 20, 40):
        _judged(job, share)
    _judged(job, 40, started_at=timezone.now() - timedelta(days=40))
    page = _post(owner, input_bound__fire_share_pct="30", preview="1")
    assert "Training waits for data 2 1 –" in _effects(page)
    assert 'value="30"' in page
    assert not ParameterValue.objects.exists()
    assert not AuditEntry.objects.filter(action="rules.changed").exists()
    loose = _post(owner, input_bound__fire_share_pct="10", preview="1")
    assert "Training waits for data 2 3 –" in _effects(loose)


def test_the_preview_names_the_runs_and_their_dollars(owner, job):
    loud, quiet = _judged(job, 40), _judged(job, 20)
    Judgement.objects.filter(pk=loud.pk).update(waste_usd_high="0.0100")
    Judgement.objects.filter(pk=quiet.pk).update(waste_usd_high="0.0040")

    strict = _post(owner, input_bound__fire_share_pct="30", preview="1")

    assert f"$0.0140 → $0.0051 No longer: {quiet.run}" in _effects(strict)
    assert reverse("dashboard:run", args=[quiet.run_id]) in strict
    assert reverse("dashboard:run", args=[loud.run_id]) not in strict

    quiet.run.cost_usd = None
    quiet.run.save()
    Judgement.objects.filter(pk=quiet.pk).update(waste_usd_high=None)
    assert "no price → $0.0051" in _effects(
        _post(owner, input_bound__fire_share_pct="30", preview="1")
    )


def test_what_only_samples_can_tell_is_named(owner, job):
    run = _run(job)
    rule = all_rules()["hung"]
    factories.judgement(
        run, "hung", "passed", values=rule.values(), rule_version=rule.version,
        numbers={"values": {"hung_seconds": 0.0, "run_seconds": 600.0}, "windows": []},
    )  # fmt: skip
    page = _post(owner, hung__idle_seconds="60", preview="1")
    assert "Hung run 0 0 1 run is judged after saving, from its samples" in _effects(page)


def test_a_preset_can_be_tried_as_well(owner, job):
    _judged(job, 12)
    page = _post(owner, preset="save", preview="1")
    assert "Training waits for data 0 1 –" in _effects(page)
    owner.workspace.refresh_from_db()
    assert owner.workspace.preset == "balanced"


def test_saving_writes_it_down_and_judges_old_runs_again_from_their_numbers(
    owner, job, django_capture_on_commit_callbacks
):
    row = _judged(job, 20)
    with django_capture_on_commit_callbacks():
        page = _post(owner, input_bound__fire_share_pct="30", preset="safe")
    assert "Saved." in page
    entry = AuditEntry.objects.get(action="rules.changed")
    assert entry.change == {
        "preset": ["balanced", "safe"],
        "input_bound.fire_share_pct": [None, 30.0],
    }
    rejudging.rejudge_workspace(owner.workspace.pk)
    row.refresh_from_db()
    assert (row.state, row.values["fire_share_pct"]) == ("passed", 30)
    assert row.waste_usd_high is None
    at = row.judged_at
    Rejudging.objects.update(done=0)
    rejudging.rejudge_workspace(owner.workspace.pk)
    row.refresh_from_db()
    assert row.judged_at == at, "twice changes nothing"


def test_the_materiality_floor_of_all_rules_is_one_field(owner, job):
    """The waste of `_judged` is estimated anew from its numbers: 20 % of the step time."""
    row = _judged(job, 20)
    page = _post(owner, materiality__least_waste_pct="60")
    assert "Saved." in page
    assert 'name="materiality.least_waste_pct"' in owner.page(PAGE)
    rejudging.rejudge_workspace(owner.workspace.pk)
    row.refresh_from_db()
    assert row.state == "passed"
    assert "below the materiality floor of 60 %" in row.summary
    _post(owner, materiality__least_waste_pct="60", input_bound__least_waste_pct="1")
    rejudging.rejudge_workspace(owner.workspace.pk)
    row.refresh_from_db()
    assert row.state == "fired"


def test_taking_it_back_finds_again_what_was_found(owner, job):
    row = _judged(job, 20)
    _post(owner, input_bound__fire_share_pct="30")
    rejudging.rejudge_workspace(owner.workspace.pk)
    _post(owner, input_bound__fire_share_pct="")
    rejudging.rejudge_workspace(owner.workspace.pk)
    row.refresh_from_db()
    assert row.state == "fired"
    assert row.waste_usd_low is not None
    assert Decimal(0) < row.waste_usd_low < row.waste_usd_high < row.run.cost_usd
    assert not ParameterValue.objects.exists()


def test_a_job_s_own_values_hold_for_it_alone(owner, job):
    other = factories.job(owner.workspace, "speech/train.py")
    rows = [_judged(job, 20), _judged(other, 20)]
    page = _post(owner, f"/jobs/{job.uuid}/rules/", input_bound__fire_share_pct="30")
    assert "Saved." in page
    rejudging.rejudge_workspace(owner.workspace.pk)
    for row in rows:
        row.refresh_from_db()
    assert [row.state for row in rows] == ["passed", "fired"]
    assert 'placeholder="15"' in page


def test_lines_of_assignments_are_taken_in_both_spellings(owner):
    lines = "low_gpu_utilization.threshold_p95=60\nlowgpuutilization_window=100\n"
    _post(owner, assignments=lines)
    stored = {(v.rule, v.name): v.value for v in ParameterValue.objects.all()}
    assert stored == {
        ("low_gpu_utilization", "threshold_p95"): 60,
        ("low_gpu_utilization", "window_seconds"): 50,
    }


WRONG = [
    ({"input_bound__fire_share_pct": "101"}, "outside 0..100"),
    ({"input_bound__fire_share_pct": "much"}, "is not a number (%)"),
    ({"input_bound__fire_share_pct": "nan"}, "outside 0..100"),
    ({"step_outlier__mode": "maybe"}, "is not one of None, TRAIN, EVAL"),
    ({"no_progress__fewest": "2.5"}, "is not a whole number"),
    ({"assignments": "nothing=1"}, "no such rule"),
    ({"assignments": "input_bound.fire_share_pct"}, "has no value"),
    ({"assignments": "input_bound.fire_share_pct=-1"}, "outside 0..100"),
    ({"preset": "wild"}, "preset"),
]


@pytest.mark.parametrize(("fields", "said"), WRONG, ids=str)
def test_what_is_wrong_is_said_and_nothing_is_saved(owner, fields, said):
    assert said in _post(owner, **fields)
    assert not ParameterValue.objects.exists()
    assert not Rejudging.objects.exists()


def test_saving_what_holds_already_changes_nothing(owner):
    assert "No changes to save" in _post(owner)
    assert not AuditEntry.objects.filter(action="rules.changed").exists()


def test_what_no_rule_knows_or_allows_any_more_is_not_shown_as_set(owner, job):
    """A release may take away a rule, a parameter or a choice, or draw its bounds nearer."""
    gone = ["a_rule_of_old.limit", "input_bound.a_limit_of_old", "input_bound.fire_share_pct"]
    for name in (*gone, "step_outlier.mode"):
        rule, _, parameter = name.partition(".")
        own = {"workspace": owner.workspace, "rule": rule, "name": parameter, "value": 987654}
        for of in (None, job):
            ParameterValue.objects.create(job=of, **own)
    for address in (PAGE, f"/jobs/{job.uuid}/rules/"):
        assert "987654" not in owner.page(address)
        assert "No changes to save" in _post(owner, address)
    assert not AuditEntry.objects.filter(action="rules.changed").exists()
    _post(owner, input_bound__fire_share_pct="30")
    assert AuditEntry.objects.get().change == {"input_bound.fire_share_pct": [None, 30]}
    assert ParameterValue.objects.filter(job=None).count() == 1


def test_members_set_a_job_s_values_and_only_owners_the_workspace_s(owner, job):
    Membership.objects.update(role="member")
    form = {"preset": "save", "input_bound.fire_share_pct": "30"}
    assert owner.client.post(PAGE, form).status_code == 403
    assert "Only owners can change these settings" in owner.page(PAGE)
    assert owner.client.post(f"/jobs/{job.uuid}/rules/", form).status_code == 302
    owner.workspace.refresh_from_db()
    assert owner.workspace.preset == "balanced"


def test_another_workspace_s_job_is_not_there(stranger, job):
    assert stranger.client.get(f"/jobs/{job.uuid}/rules/").status_code == 404


def test_nobody_else_s_runs_are_judged_by_it(owner, stranger, job):
    theirs = _judged(factories.job(stranger.workspace), 20)
    _post(owner, input_bound__fire_share_pct="30")
    rejudging.rejudge_workspace(owner.workspace.pk)
    theirs.refresh_from_db()
    assert theirs.state == "fired"


def test_anonymous_people_see_no_rules(anonymous: Client):
    assert anonymous.get("/rules/").status_code == 302
