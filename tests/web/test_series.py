"""The samples behind the charts: bounded, cached by what has arrived, gaps kept."""

from __future__ import annotations

import csv
import io
from email.message import Message

import pytest
from django.urls import reverse

from tests.html import read_page
from tests.web import factories, training
from webapp.runs.models import Job, Run

CPU = "host.cpu_busy_pct"


@pytest.fixture
def run(owner) -> Run:
    return training.uploaded_run(owner.workspace, minutes=2, gap=(4, 5))


def _get(person, run: Run, query: str, kind: str = "series_json", **headers: str):  # type: ignore[no-untyped-def]
    return person.client.get(
        reverse(f"runs:{kind}", args=[run.pk]) + "?" + query, headers=headers or None
    )


def _series(person, run: Run, query: str) -> dict:  # type: ignore[no-untyped-def, type-arg]
    return {series["name"]: series for series in _get(person, run, query).json()["series"]}


def test_a_series_has_its_least_mean_and_greatest_value_by_bucket(owner, run):
    series = _series(owner, run, f"names={CPU}&buckets=24")[CPU]

    known = [
        (low, mean, high)
        for low, mean, high in zip(series["min"], series["mean"], series["max"], strict=True)
        if mean is not None
    ]
    assert known
    assert all(low <= mean <= high for low, mean, high in known)
    assert any(low < high for low, _, high in known)


def test_a_gap_is_null_and_not_bridged(owner, run):
    series = _series(owner, run, f"names={CPU}&buckets=120")[CPU]

    in_gap = [m for t, m in zip(series["t"], series["mean"], strict=True) if 42 < t < 58]
    before = [m for t, m in zip(series["t"], series["mean"], strict=True) if t < 38]
    assert in_gap
    assert set(in_gap) == {None}
    assert None not in before


def test_counters_come_as_rates(owner, run):
    series = _series(owner, run, "names=disk.read_bytes_total&buckets=12")["disk.read_bytes"]

    assert series["unit"] == "bytes/s"
    assert series["mean"][0] == pytest.approx(6_000_000, rel=0.01)


def test_steps_and_their_data_wait_stand_on_the_same_axis(owner, run):
    names = "step.duration_seconds,step.data_wait_seconds"
    series = _series(owner, run, f"names={names}&buckets=24")

    duration, wait = series["step.duration_seconds"], series["step.data_wait_seconds"]
    known = [i for i, value in enumerate(duration["mean"]) if value is not None]
    assert known
    assert wait["mean"][known[0]] / duration["mean"][known[0]] == pytest.approx(0.62, abs=0.01)


def test_a_part_of_the_run_is_read_at_its_own_resolution(owner, run):
    whole = _series(owner, run, f"names={CPU}&buckets=20")[CPU]
    part = _series(owner, run, f"names={CPU}&buckets=20&from=10&to=20")[CPU]

    assert min(part["t"]) >= 10
    assert max(part["t"]) < 20
    assert len(part["t"]) > 10
    assert part["t"][1] - part["t"][0] < whole["t"][1] - whole["t"][0]


@pytest.mark.parametrize("buckets", [1, 37, 2000])
def test_never_more_points_than_were_asked_for(owner, run, buckets):
    series = _series(owner, run, f"names={CPU}&buckets={buckets}")[CPU]

    assert 1 <= len(series["t"]) <= buckets


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "names"),
        ("names=" + ",".join(f"a.b{i}" for i in range(65)), "names"),
        (f"names={CPU}&buckets=0", "buckets"),
        (f"names={CPU}&buckets=2001", "buckets"),
        (f"names={CPU}&buckets=many", "buckets"),
        (f"names={CPU}&from=nan", "from"),
        (f"names={CPU}&to=inf", "to"),
    ],
)
def test_a_bad_question_is_refused_by_the_name_of_its_field(owner, run, query, field):
    answer = _get(owner, run, query)

    assert answer.status_code == 400
    assert answer.json()["field"] == field


def test_a_series_that_is_not_there_is_left_out(owner, run):
    assert _series(owner, run, f"names=gpu0.busy_pct,{CPU}").keys() == {CPU}


def test_an_unchanged_answer_is_not_sent_twice(owner, run):
    first = _get(owner, run, f"names={CPU}")

    assert _get(owner, run, f"names={CPU}", **{"If-None-Match": first["ETag"]}).status_code == 304
    other = _get(owner, run, f"names={CPU}&buckets=7", **{"If-None-Match": first["ETag"]})
    assert other.status_code == 200


def test_new_samples_make_a_new_answer(owner):
    part = training.Training("growing", minutes=1, ended=False)
    run = training.upload(owner.workspace, part, upto=3)
    first = _get(owner, run, f"names={CPU}")

    training.upload(owner.workspace, part, upto=6)

    second = _get(owner, run, f"names={CPU}", **{"If-None-Match": first["ETag"]})
    assert second.status_code == 200
    assert second.json()["to"] > first.json()["to"]


def test_a_run_without_samples_answers_with_none(owner):
    run = factories.run(factories.job(owner.workspace))

    assert _get(owner, run, f"names={CPU}").json()["series"] == []


@pytest.mark.parametrize("name", ['a/b\n"c\\', "größe", "..", "x" * 200])
def test_the_csv_of_any_job_can_be_saved(owner, run, name):
    Job.objects.filter(pk=run.job_id).update(name=name)
    answer = _get(owner, run, f"names={CPU}", "series_csv")
    assert answer.status_code == 200
    said = Message()
    said["Content-Disposition"] = answer["Content-Disposition"]
    saved = said.get_filename("")
    assert saved.endswith(f"-{run.number}.csv")
    assert not set("/\\\n") & set(saved)


def test_the_csv_has_a_line_for_each_bucket_and_leaves_the_unknown_empty(owner, run):
    answer = _get(owner, run, f"names={CPU}&buckets=60", "series_csv")

    assert answer["Content-Type"].startswith("text/csv")
    assert answer["Content-Disposition"].startswith("attachment; ")
    lines = list(csv.DictReader(io.StringIO(read_page(answer))))
    assert {line["series"] for line in lines} == {CPU}
    assert any(line["mean"] == "" for line in lines)
    assert any(float(line["mean"]) > 40 for line in lines if line["mean"])
