"""The list of runs: filter by text and by form, columns, order, groups, search and CSV."""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.urls import reverse

from tests.html import read_page
from tests.web import factories
from webapp.runs.editing import jobs as job_editing
from webapp.runs.editing import merging
from webapp.runs.editing import runs as run_editing

TUESDAY = datetime(2026, 11, 24, 9, tzinfo=UTC)


def _page(person, status: int = 200, **query: object) -> str:  # type: ignore[no-untyped-def]
    answer = person.client.get(f"/runs/?{urlencode(query, doseq=True)}")
    assert answer.status_code == status
    return read_page(answer)


def _names(page: str) -> list[str]:
    """Return the numbers of the listed runs, in order."""
    return re.findall(r'class="name" href="/runs/[^"]+">[^<#]*#(\d+)<', page)


def _text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


@pytest.fixture
def job(owner):
    """Return a job of four runs, a day apart; the last one is the newest."""
    job = factories.job(owner.workspace, "vision/train.py", owner="ada", tags={"team": "vision"})
    rows = [
        {"lr": 0.1, "optimizer": "adam"},
        {"lr": "0.01", "optimizer": "sgd", "amp": True},
        {"lr": 0.1, "optimizer": "adamw", "amp": False},
        {"optimizer": "sgd momentum"},
    ]
    losses = [0.5, 0.25, None, 0.125]
    for day, (parameters, loss) in enumerate(zip(rows, losses, strict=True)):
        factories.run(
            job,
            started_at=TUESDAY + timedelta(days=day),
            parameters=parameters,
            metrics={} if loss is None else {"val.loss": loss},
            tags={"team": "speech"} if day == 1 else {},
            cost=None if day == 3 else str(1 + day),
            state="failed" if day == 2 else "finished",
            seconds=600 * (1 + day),
        )
    return job


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lr = 0.1", "31"),
        ("lr = '0.10'", "31"),
        ("param.lr < 0.1", "2"),
        ("params.lr != 0.1", "2"),
        ("lr IS NULL", "4"),
        ("lr is not null", "321"),
        ("lr IN (0.01, 7)", "2"),
        ("lr NOT IN (0.01, 7)", "31"),
        ("optimizer = adam", "1"),
        ("optimizer = 'sgd momentum'", "4"),
        ("optimizer LIKE 'ADAM%'", "31"),
        ("optimizer LIKE 'adam_'", "3"),
        ("amp = true", "2"),
        ("amp != True", "3"),
        ("metric.`val.loss` < 0.3", "42"),
        ("val.loss >= 0.25", "21"),
        ("tag.team = vision", "431"),
        ("team = speech", "2"),
        ("lr = 0.1 and started > 2026-11-24", "3"),
        ("started = 2026-11-24", "1"),
        ("started != 2026-11-24", "432"),
        ("started <= 2026-11-25", "21"),
        ("started < 2026-11-25", "1"),
        ("started >= 2026-11-25T09:00:00", "432"),
        ("state = failed", "3"),
        ("state in (failed, running)", "3"),
        ("cost > $1.50", "32"),
        ("cost IS NULL", "4"),
        ("cost != 1", "32"),
        ("duration > 20min", "43"),
        ("duration = 10min", "1"),
        ("duration <= 0.5h AND duration > 600", "32"),
        ("machine = c5.large and nodes = 1", "4321"),
        ("owner = ada", "4321"),
        ("owner LIKE b%", ""),
        ("job LIKE '%train%'", "4321"),
        ("job = vision/train.py", "4321"),
    ],
)
def test_a_filter_finds_the_runs_that_it_describes(owner, job, text, found):
    assert "".join(_names(_page(owner, filter=text))) == found


@pytest.mark.parametrize(
    ("text", "place", "fix"),
    [
        ("lrr = 0.1", 1, "Did you mean lr?"),
        ("lr = 0.1 and optimiser = adam", 14, "Did you mean optimizer?"),
        ("lr = 0.1 lr = 2", 10, "Write and between two conditions."),
        ("lr == 0.1", 5, "Write a value here"),
        ("lr", 3, "after lr"),
        ("= 3", 1, "Write a name here"),
        ("lr > high", 1, "Write a number instead of high."),
        ("started > yesterday", 1, "Write a date such as 2026-11-17"),
        ("started > 2026-13-77", 1, "Write a date such as 2026-11-17"),
        ("cost > much", 1, "Write an amount such as 12.50"),
        ("duration > long", 1, "Write a length such as 90s"),
        ("state = done", 1, "The states are running, finished"),
        ("job > 3", 1, "compare it with =, !=, LIKE or IN"),
        ("optimizer LIKE '%a%b%c%d%'", 1, "4 % at most"),
        (" and ".join(["lr = 1"] * 51), 546, "At most 50 conditions."),
    ],
)
def test_an_error_names_its_place_and_what_to_write(owner, job, text, place, fix):
    page = _text(_page(owner, status=400, filter=text))

    assert f"At character {place}." in page
    assert fix in page


def test_a_name_of_two_kinds_asks_which_is_meant(owner, job):
    factories.run(job, parameters={"loss": "mse"}, metrics={"loss": 1.0})

    page = _text(_page(owner, status=400, filter="loss = 1"))

    assert "loss is a parameter and a metric. Write param.loss or metric.loss." in page
    assert _names(_page(owner, filter="metric.loss = 1")) == ["5"]
    assert _names(_page(owner, filter="param.loss = mse")) == ["5"]


def test_the_form_adds_a_condition_to_the_filter(owner, job):
    query = {"filter": "lr = 0.1", "name": "param.optimizer", "op": "!=", "value": "it's"}
    answer = owner.client.get("/runs/", query)

    assert answer.status_code == 302
    kept = urlencode({"filter": """lr = 0.1 and param.optimizer != "it's\""""})
    assert answer.url == f"/runs/?{kept}"
    page = read_page(owner.client.get(answer.url))
    assert _names(page) == ["3", "1"]
    assert 'href="/runs/?filter=lr+%3D+0.1"' in page


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("", "4321"),
        ("param.lr", "2134"),
        ("-param.lr", "1324"),
        ("param.optimizer", "1324"),
        ("-metric.val.loss", "1243"),
        ("cost", "1234"),
        ("-cost", "3214"),
        ("started", "1234"),
        ("-duration", "4321"),
        ("tag.team", "2134"),
        ("nonsense", "4321"),
    ],
)
def test_a_list_is_sorted_with_unknown_values_last(owner, job, sort, found):
    names = _names(_page(owner, sort=sort))

    ties = {"1", "3"} if sort in ("param.lr", "-param.lr") else set()
    ties = {"1", "3", "4"} if sort == "tag.team" else ties
    assert [name for name in names if name not in ties] == [x for x in found if x not in ties]
    assert names.index(found[-1]) == 3 or sort == "tag.team"


@pytest.mark.parametrize(
    ("text", "found"),
    [("lr < 0.1", "2"), ("lr != 0.01", "13"), ("lr IN (0.01, 0.1)", "213"), ("lr IS NULL", "4")],
)
def test_a_list_is_sorted_by_what_it_is_filtered_by(owner, job, text, found, monkeypatch):
    monkeypatch.setattr("webapp.dashboard.selectors.run_table.FEW", 0)
    monkeypatch.setattr("webapp.dashboard.selectors.run_conditions.FEW", 0)
    names = _names(_page(owner, filter=text, sort="param.lr"))

    assert sorted(names) == sorted(found)
    assert names[0] == found[0] or found == "13"


def test_pages_go_on_from_known_values_to_unknown_ones(owner, job, monkeypatch):
    monkeypatch.setattr("webapp.dashboard.views.runs.PAGE_RUNS", 1)
    pages = [_names(_page(owner, sort="-metric.val.loss", page=n)) for n in (1, 2, 3, 4)]
    assert pages == [["1"], ["2"], ["4"], ["3"]]


def test_columns_show_parameters_metrics_and_tags_as_sent(owner, job):
    page = _page(owner, column=["param.lr", "metric.val.loss", "tag.team", "owner"])

    rows = [_text(row) for row in re.findall(r"<tr>(.*?)</tr>", page, re.S)]
    assert rows[0].split()[-4:] == ["lr", "val.loss", "team", "Owner"]
    assert rows[1].split()[-4:] == ["–", "0.125", "vision", "ada"]
    assert rows[3].split()[-4:] == ["0.01", "0.25", "speech", "ada"]
    assert "Duration" not in rows[0]


def test_groups_sum_their_runs_and_lead_to_them(owner, job):
    page = _page(owner, group="param.lr", column=["metric.val.loss", "duration"])

    rows = [_text(row).split() for row in re.findall(r"<tr>(.*?)</tr>", page, re.S)]
    assert rows[1][:1] + rows[1][-7:] == ["0.1", "2", "$4.00", "0.5", "20", "m", "0", "s"]
    assert ["(none)"] in [row[:1] for row in rows]
    assert "no price" in " ".join(next(row for row in rows if row[0] == "(none)"))
    inside = re.findall(r'class="name" href="([^"]+)"', page)
    listed = [_names(read_page(owner.client.get(each.replace("&amp;", "&")))) for each in inside]
    assert sorted(listed) == [["2"], ["3", "1"], ["4"]]


@pytest.mark.parametrize(
    ("group", "values"),
    [
        ("tag.team", {"vision": "3", "speech": "1"}),
        ("state", {"finished": "3", "failed": "1"}),
        ("owner", {"ada": "4"}),
        ("job", {"vision/train.py": "4"}),
        ("machine", {"c5.large": "4"}),
    ],
)
def test_runs_are_grouped_by_anything(owner, job, group, values):
    page = _page(owner, group=group)
    found = re.findall(r'class="name"[^>]*>([^<]+)</a>.*?data-label="Runs">(\d+)<', page, re.S)
    assert dict(found) == values


@pytest.mark.parametrize(
    ("text", "found"),
    [("train", "4321"), ("ADA", "4321"), ("vision/train.py#3", "3"), ("#2", "2"), ("bob", "")],
)
def test_a_search_finds_jobs_owners_and_numbers(owner, job, text, found):
    assert "".join(_names(_page(owner, q=text))) == found


def test_a_search_finds_a_run_by_its_id(owner, job):
    run = job.runs.get(number=2)
    assert _names(_page(owner, q=str(run.pk))) == ["2"]


def test_the_file_has_the_columns_of_the_list_and_every_run(owner, job):
    query = {"filter": "lr IS NOT NULL", "sort": "param.lr", "column": ["param.lr", "tag.team"]}
    answer = owner.client.get(reverse("dashboard:runs_csv"), query)
    rows = list(csv.DictReader(answer.getvalue().decode().splitlines()))

    assert rows[0]["number"] == "2"
    assert len(rows) == 3
    assert {"job", "state", "owner", "started_at", "cost_usd", "url"} < rows[0].keys()
    assert rows[0]["param.lr"] == "0.01"
    assert rows[0]["tag.team"] == "speech"
    assert rows[0]["started_at"] == "2026-11-25T09:00:00+00:00"
    refused = owner.client.get(reverse("dashboard:runs_csv"), {"filter": "lrr = 1"})
    assert refused.status_code == 400


def test_a_formula_in_the_file_is_text_and_a_negative_number_is_a_number(owner, job):
    factories.run(job, parameters={"=cmd": "=1+1", "bias": -0.5})
    query = {"column": ["param.=cmd", "param.bias"], "filter": "bias = -0.5"}
    answer = owner.client.get(reverse("dashboard:runs_csv"), query)
    [row] = csv.DictReader(answer.getvalue().decode().splitlines())

    assert row["param.=cmd"] == "'=1+1"
    assert row["param.bias"] == "-0.5"


def test_names_and_values_of_others_stay_theirs(owner, stranger, job):
    theirs = factories.job(stranger.workspace, "secret.py")
    factories.run(theirs, parameters={"secret_lr": 3, "lr": 0.1}, tags={"secret_tag": "x"})

    assert "secret" not in _page(owner)
    assert "No run has a" in _page(owner, status=400, filter="secret_lr = 3")
    assert "".join(_names(_page(owner, filter="lr = 0.1"))) == "31"


def test_edited_tags_are_found_at_once(owner, job):
    run = job.runs.get(number=1)
    run_editing.edit(run, owner.user, {"tags": {"team": "ranking"}})
    assert _names(_page(owner, filter="team = ranking")) == ["1"]

    job_editing.edit(job, owner.user, {"tags": {"team": "language", "cell": "7"}})
    assert _names(_page(owner, filter="team = language")) == ["4", "3"]
    assert _names(_page(owner, filter="cell = 7")) == ["4", "3", "2", "1"]
    assert _names(_page(owner, filter="team = ranking")) == ["1"]

    job_editing.edit(job, owner.user, {"tags": {}})
    assert _names(_page(owner, filter="team IS NULL")) == ["4", "3"]


def test_merged_runs_have_the_tags_of_their_job(owner, job):
    other = factories.job(owner.workspace, "other.py", tags={"cell": "9"})
    factories.run(other)
    assert len(_names(_page(owner, filter="cell = 9"))) == 1

    merging.merge(other, job, owner.user)
    assert _names(_page(owner, filter="cell = 9")) == []
    assert len(_names(_page(owner, filter="team = vision"))) == 4

    other.refresh_from_db()
    merging.unmerge(other, owner.user)
    assert len(_names(_page(owner, filter="cell = 9"))) == 1
    assert len(_names(_page(owner, filter="team = vision"))) == 3


def test_deleted_runs_are_not_found(owner, job):
    job.runs.filter(number=1).update(deleted_at=TUESDAY)
    assert _names(_page(owner, filter="lr = 0.1")) == ["3"]


def test_many_runs_of_a_filter_are_counted_no_further_than_needed(owner, job, monkeypatch):
    for place in ("run_table", "run_conditions"):
        monkeypatch.setattr(f"webapp.dashboard.selectors.{place}.FEW", 2)
    monkeypatch.setattr("webapp.dashboard.views.runs.FEW", 2)
    monkeypatch.setattr("webapp.dashboard.views.runs.PAGE_RUNS", 1)

    page = _page(owner, filter="lr IS NOT NULL and started >= 2026-11-24")

    assert _names(page) == ["3"]
    assert "1 to 1 of more than 2" in _text(page)
    assert _names(_page(owner, filter="lr = 0.01 and team = speech")) == ["2"]
    assert _names(_page(owner, filter="lr IS NOT NULL", sort="param.lr", page=1)) == ["2"]
