"""Two runs side by side: the first sentence says what changed and by how much."""

from __future__ import annotations

import re
from decimal import Decimal
from uuid import UUID

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from advisor.run_summary import RunSummary
from tests.web import factories, training
from webapp.analysis.selectors.run_facts import command_options
from webapp.dashboard.selectors.waterfall import WIDTH, waterfall
from webapp.runs.models import Run


def _address(a: Run, b: Run) -> str:
    return reverse("dashboard:compare") + f"?a={a.pk}&b={b.pk}"


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def _sentence(page: str) -> str:
    match = re.search(r'id="sentence">(.*?)</p>', page, re.DOTALL)
    assert match is not None
    return _text(match[1])


@pytest.fixture
def pair(owner) -> tuple[Run, Run]:
    """Return the published case: three large nodes, then two small ones, for the same work."""
    job = factories.job(owner.workspace)
    large = factories.summary(
        instance_types=["ml.p3.8xlarge"],
        node_count=3,
        usd_per_hour=Decimal("14.688"),
        data_wait_share=0.6,
    )
    small = factories.summary(
        instance_types=["ml.p3.2xlarge"],
        node_count=2,
        usd_per_hour=Decimal("3.825"),
        data_wait_share=0.1,
    )
    a = factories.run(job, cost="6.15672", seconds=503, summary=large, configuration={"workers": 0})
    b = factories.run(
        job,
        cost="1.066750000",
        seconds=502,
        summary=small,
        configuration={"workers": 4},
        parameters={"workers": 4},
    )
    factories.analysis(a)
    factories.analysis(b)
    return a, b


def test_the_first_sentence_says_what_changed_and_by_how_much(owner, pair):
    sentence = _sentence(owner.page(_address(*pair)))

    assert "#2" in sentence
    assert "#1" in sentence
    assert "$5.09 less" in sentence
    assert "82.7 %" in sentence
    assert "2 × ml.p3.2xlarge" in sentence


def test_the_sentence_is_the_first_thing_below_the_heading(owner, pair):
    page = owner.page(_address(*pair))
    body = page.partition("</h1>")[2]

    assert body.index('id="sentence"') < body.index("Cost change by cause")


def test_the_parts_of_the_difference_add_up(owner, pair):
    bars = owner.client.get(_address(*pair)).context["page"].bars

    first, *terms, last = bars
    assert [bar.kind for bar in (first, last)] == ["run", "run"]
    assert first.usd + sum(term.usd for term in terms) == last.usd
    assert {"instance type", "node count", "duration"} <= {term.label for term in terms}


def test_only_what_changed_is_listed_and_the_rest_is_folded(owner, pair):
    for run in pair:
        run.parameters = run.parameters | {"optimizer": "adam"}
        run.save()

    page = owner.page(_address(*pair))
    changed = page.partition('id="changed-title"')[2].partition("<details")[0]

    assert "workers" in changed
    assert "ml.p3.2xlarge" in changed
    assert "optimizer" not in changed
    assert "optimizer" in page


def test_what_the_command_line_and_the_commit_tell_is_a_setting_too(owner, pair):
    for run, pipeline, commit in zip(pair, ("slow", "fast"), ("aaa111", "bbb222"), strict=True):
        run.command = ["python", "train.py", "--pipeline", pipeline, "--epochs=150", "--amp"]
        run.git = {"commit": commit}
        run.save()

    changes = owner.client.get(_address(*pair)).context["page"].result.configuration_changes

    by_name = {change.name: (change.a, change.b) for change in changes}
    assert by_name["--pipeline"] == ("slow", "fast")
    assert by_name["git commit"] == ("aaa111", "bbb222")
    assert "--epochs" not in by_name


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ([], {}),
        (["python", "a.py", "x", "-v"], {}),
        (["a", "--lr", "-1", "--b=c=d"], {"--lr": "-1", "--b": "c=d"}),
        (["a", "--amp", "--n", "3", "--last"], {"--amp": "given", "--n": "3", "--last": "given"}),
        (["a", "--", "--b", "1"], {"--b": "1"}),
    ],
)
def test_options_are_read_from_a_command(command, options):
    assert command_options(command) == options


def test_swapping_turns_the_difference_around(owner, pair):
    a, b = pair
    page = owner.page(_address(b, a))

    assert "$5.09 more" in _sentence(page)
    assert _address(a, b).replace("&", "&amp;") in page


def test_a_difference_without_a_price_is_not_invented(owner, pair):
    a, b = pair
    Run.objects.filter(pk=b.pk).update(cost_usd=None)

    page = owner.page(_address(a, b))

    assert "no price" in _sentence(page)
    assert "no difference to explain" in page
    assert not re.search(r"\$0\.0+[^0-9]", page)


@pytest.mark.parametrize("state", ["failed", "running", "lost"])
def test_no_saving_is_claimed_of_a_run_that_did_not_finish(owner, pair, state):
    a, b = pair
    Run.objects.filter(pk=b.pk).update(state=state)

    page = owner.page(_address(a, b))

    assert "less" not in _sentence(page)
    assert "no saving is claimed" in page


def test_runs_of_two_jobs_are_compared_with_a_note(owner, pair):
    other = factories.run(factories.job(owner.workspace, "speech/train.py"))

    page = owner.page(_address(pair[0], other))

    assert "belong to two jobs" in page
    assert "speech/train.py #1" in _text(page)


def test_a_run_that_was_never_analysed_can_be_compared(owner):
    job = factories.job(owner.workspace)
    blank = {"summary": RunSummary(), "cost": None, "configuration": {}, "work": {}}
    a, b = factories.run(job, **blank), factories.run(job, **blank)

    assert "no price" in _sentence(owner.page(_address(a, b)))


def test_the_markdown_can_be_taken_along(owner, pair):
    page = owner.page(_address(*pair))

    assert "| changed | \\#1 |" in page or "| changed | #1 |" in page


def test_names_are_escaped(owner, pair):
    a, b = pair
    b.parameters = {"<script>x</script>": "<b>y</b>"}
    b.save()

    page = owner.page(_address(a, b))

    assert "<script>x" not in page
    assert "<b>y" not in page


def test_the_browser_is_told_which_samples_to_read(owner):
    a = training.uploaded_run(owner.workspace, gpus=1)
    b = training.uploaded_run(owner.workspace, gpus=1)

    document = owner.client.get(_address(a, b)).context["chart"]

    assert [run["length_seconds"] for run in document["runs"]] == [60.0, 60.0]
    for run in document["runs"]:
        for chart in document["charts"]:
            names = ",".join(chart["query"])
            series = owner.client.get(f"{run['address']}?names={names}").json()["series"]
            drawn = {line["name"] for line in chart["lines"]}
            assert {one["name"] for one in series} == drawn, chart["title"]


def test_ticked_runs_lead_to_their_comparison_the_earlier_first(owner, pair):
    a, b = pair

    answer = owner.client.get(reverse("dashboard:compare") + f"?run={b.pk}&run={a.pk}")

    assert answer.url == _address(a, b)


@pytest.mark.parametrize(
    "query",
    [
        "?a=nonsense&b=1",
        f"?a={UUID(int=1)}&b={UUID(int=2)}",
        f"?run={UUID(int=1)}&run={UUID(int=2)}",
    ],
)
def test_ids_that_are_none_lead_to_a_404_that_says_so(owner, query):
    answer = owner.client.get(reverse("dashboard:compare") + query)

    assert answer.status_code == 404
    assert b"Page not found" in answer.content


@pytest.mark.parametrize("query", ["", "?a=", "?run=1", "?run=1&run=1", "?a=1&b=1"])
def test_fewer_than_two_runs_are_a_400_that_says_how_to_choose(owner, query):
    answer = owner.client.get(reverse("dashboard:compare") + query)

    assert answer.status_code == 400
    assert b"Select the runs" in answer.content


_usd = st.decimals(min_value="0", max_value="1e6", places=9)
_terms = st.lists(st.decimals(min_value="-1e6", max_value="1e6", places=9), max_size=6)


@given(_usd, _terms)
def test_every_bar_of_the_waterfall_lies_in_its_box(start, terms):
    end = start + sum(terms, Decimal(0))
    bars = waterfall(("a", start), [("term", usd) for usd in terms], ("b", end))

    assert len(bars) == len(terms) + 2
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH + 0.11 for bar in bars)
    assert all(bar.width > 0 for bar in bars if bar.usd)
    assert all(bar.width == 0 for bar in bars if not bar.usd)
    assert [bar.usd for bar in bars] == [start, *terms, end]


def test_each_bar_begins_where_the_one_before_ended():
    bars = waterfall(("a", Decimal(8)), [("x", Decimal(-3)), ("y", Decimal(1))], ("b", Decimal(6)))

    assert [(bar.x, bar.width) for bar in bars] == [
        (0, 1000),
        (625, 375),
        (625, 125),
        (0, 750),
    ]
    assert [bar.kind for bar in bars] == ["run", "less", "more", "run"]
