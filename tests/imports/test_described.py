"""SageMaker's description of a job: its machines, and what is billed of them."""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import settings as hypotheses
from hypothesis import strategies as st

from advisor.__main__ import main
from advisor.costing.billing import as_document
from advisor.costing.billing import from_document as from_billing
from advisor.importers.described_job import from_describe
from advisor.importers.recording import NotImportableError
from advisor.importers.stated_facts import MachineGroup, StatedFacts
from advisor.offline.analysis import report_of
from advisor.offline.importing import import_path
from advisor.sizing.demand import BALANCED
from tests.html import read_page
from tests.imports import folders
from tests.imports.folders import DESCRIBED
from tests.imports.reported import reported
from tests.imports.test_service import upload, work
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Membership, Token, User, Workspace
from webapp.analysis import tasks as analyses
from webapp.runs.models import Run

JOB_STARTED = 1_592_951_460
"""2020-06-23 22:31 UTC, the `TrainingStartTime` of the reported descriptions."""
REPORTED = {
    "plain": ("5.2275", False, 1, ""),
    "hetero": ("5.7851", True, 3, "1 x ml.p3.2xlarge and 2 x ml.c5.xlarge"),
    "two_nodes_one_seen": ("20.91", True, 4, "The job had 4 machines"),
    "spot": ("1.56825", False, 1, "1,476 s of 4,920 s are billed"),
    "warmpool": ("7.14", False, 1, "in a warm pool for 1,800 s"),
}
"""The cost of each job in USD (the time x $3.825 and $0.204 an hour), whether it is at least that,
the number of machines, and words about it."""


@pytest.fixture
def job_folder(tmp_path, monkeypatch) -> Path:
    """Return a minute of one machine of the reported job."""
    monkeypatch.setattr(folders, "START", JOB_STARTED)
    return folders.sagemaker(tmp_path / "recorded", seconds=60)


@pytest.mark.parametrize("name", REPORTED)
def test_the_command_prints_what_the_job_cost(name, job_folder, capsys):
    usd, at_least, machines, words = REPORTED[name]
    described = ["import", str(job_folder), "--describe", str(reported(f"describe/{name}.json"))]
    assert main([*described, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert Decimal(document["cost_usd"]) == Decimal(usd)
    assert document["cost_is_at_least"] is at_least
    assert len(document["nodes"]) == machines
    assert words in " ".join(document["cost_notes"])
    assert main(described) == 0
    said = capsys.readouterr().out
    assert f"{'at least ' if at_least else ''}${Decimal(usd):.2f} at list prices" in said
    assert words in said


@pytest.mark.parametrize("name", REPORTED)
@pytest.mark.django_db
def test_the_service_shows_what_the_job_cost(name, job_folder, tmp_path, settings, client):
    usd, at_least, machines, words = REPORTED[name]
    settings.OBJECTS_URL = str(tmp_path / "objects")
    run = imported(job_folder, tmp_path, json.loads(reported(f"describe/{name}.json").read_bytes()))
    assert run.cost_usd == Decimal(usd)

    token = Token.make(run.workspace, "reader", ["read"])[1]
    headers = {"Authorization": f"Bearer {token}"}
    answer = Client().get(f"/api/v1/runs/{run.pk}", headers=headers).json()
    assert Decimal(answer["cost_usd"]) == Decimal(usd)
    assert answer["cost_is_at_least"] is at_least
    assert len(answer["nodes"]) == machines
    assert words in " ".join(answer["money"]["notes"])

    user = User.objects.create_user("ada@example.org")
    Membership.objects.create(user=user, workspace=run.workspace, role=Membership.OWNER)
    client.force_login(user)
    page = read_page(client.get(f"/runs/{run.pk}/"))
    least = "<small>at least</small> " if at_least else ""
    assert f'<dd class="figure-value">{least}${Decimal(usd):.2f}</dd>' in page
    assert words in page


def imported(folder: Path, tmp_path: Path, described: dict[str, Any]) -> Run:
    """Import the folder through the service, and analyse the run."""
    workspace = Workspace.objects.create(name="Ours")
    agent = FakeAgent(Client(), Token.make(workspace, "agent", ["ingest"])[1], job="vision")
    upload(agent, folder, tmp_path, describe=described)
    assert work().error == ""
    run = Run.objects.get()
    analyses.evaluate(str(run.pk))
    run.refresh_from_db()
    return run


@pytest.mark.django_db
def test_a_run_that_is_priced_again_keeps_what_is_billed(tmp_path, settings, client):
    settings.OBJECTS_URL = str(tmp_path / "objects")
    folder = folders.sagemaker(tmp_path / "recorded", seconds=60)
    run = imported(folder, tmp_path, described(BillableTimeInSeconds=100))
    user = User.objects.create_user("ada@example.org")
    Membership.objects.create(user=user, workspace=run.workspace, role=Membership.OWNER)
    client.force_login(user)
    said = {"instance_type": "ml.p3.8xlarge", "region": "us-west-2", "purchase_option": "on_demand"}
    client.post(f"/runs/{run.pk}/machine/", said)
    run.refresh_from_db()
    assert run.cost_usd == (Decimal("14.688") * 100 / 3600).quantize(Decimal("1E-9"))


def described(**more: Any) -> dict[str, Any]:
    return {**copy.deepcopy(DESCRIBED), **more}


def report(folder: Path, document: dict[str, Any]):  # type: ignore[no-untyped-def]
    """Return the run without a service, and its report."""
    made = import_path(folder, from_describe(document))
    return made, report_of(made.run, made.timeline, BALANCED, made.timeline.ended_at)


def test_the_reserved_capacity_is_named(tmp_path):
    plan = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/summer-plan"
    place = {"PlacementSpecifications": [{"UltraServerId": "ultra-7", "InstanceCount": 1}]}
    resources = {
        **DESCRIBED["ResourceConfig"],
        "TrainingPlanArn": plan,
        "InstancePlacementConfig": place,
    }
    _, made = report(folders.sagemaker(tmp_path, 60), described(ResourceConfig=resources))
    said = " ".join(made.cost_notes)
    assert "the training plan summer-plan, which is reserved and paid for in advance" in said
    assert "the UltraServer ultra-7" in said


@pytest.mark.parametrize(
    ("status", "detail", "state", "words"),
    [
        ("Failed", "Failed", "failed", "on why the job failed: AlgorithmError: no  such file"),
        ("Stopped", "MaxRuntimeExceeded", "stopped", "stopped the job: MaxRuntimeExceeded."),
    ],
)
def test_how_the_job_ended_is_that_of_any_recording_of_it(status, detail, state, words, tmp_path):
    table = tmp_path / "gpus.csv"
    rows = [f"{folders.START + second},50" for second in range(60)]
    table.write_text("\n".join(["time,gpu0.busy_pct", *rows]))
    reason = "AlgorithmError: no\n such file"
    document = described(TrainingJobStatus=status, SecondaryStatus=detail, FailureReason=reason)
    made = import_path(table, from_describe(document))
    assert (made.timeline.state, made.imported.state) == (state, state)
    said = " ".join(made.imported.tally.notes)
    assert words in said
    assert "counts as finished" not in said
    assert made.run.job == "vision"


def test_a_job_that_goes_on_cost_at_least_what_is_known(tmp_path):
    document = described(TrainingJobStatus="InProgress")
    del document["TrainingEndTime"]
    _, made = report(folders.sagemaker(tmp_path, 60), document)
    assert made.cost_is_at_least
    assert "hadn't ended" in " ".join(made.cost_notes)


def test_a_failed_job_that_was_billed_nothing_cost_nothing(tmp_path):
    document = described(TrainingJobStatus="Failed", BillableTimeInSeconds=0)
    _, made = report(folders.sagemaker(tmp_path, 60), document)
    assert made.cost.total_usd == 0


def test_spot_without_its_billed_time_says_that_the_cost_is_too_high(tmp_path):
    document = described(EnableManagedSpotTraining=True)
    _, made = report(folders.sagemaker(tmp_path, 60), document)
    assert "more than was billed" in " ".join(made.cost_notes)


def test_a_description_of_another_time_moves_no_recording(tmp_path):
    document = described(
        TrainingStartTime="2024-06-23T22:31:00+00:00",
        TrainingEndTime="2024-06-23T23:53:00+00:00",
        BillableTimeInSeconds=4920,
    )
    made, judged = report(folders.sagemaker(tmp_path, 60), document)
    assert made.timeline.started_at.year == 2026
    assert "Is it the same job?" in " ".join(made.imported.tally.notes)
    assert judged.cost.total_usd == Decimal("5.2275")


def test_the_machines_are_matched_by_what_was_seen(tmp_path):
    """The first group has no GPU, and the recorded machine has one."""
    groups = [
        {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "InstanceGroupName": "cpu"},
        {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "InstanceGroupName": "gpu"},
    ]
    document = described(ResourceConfig={"InstanceGroups": groups})
    made, _ = report(folders.sagemaker(tmp_path, 60), document)
    types = [(node.name, node.facts.instance_type) for node in made.timeline.nodes]
    assert types == [("algo-1", "ml.p3.2xlarge"), ("algo-2", "ml.c5.xlarge")]


def test_an_instance_type_that_a_person_names_is_that_of_all_machines(tmp_path):
    document = described(ResourceConfig={"InstanceType": "ml.p3.2xlarge", "InstanceCount": 2})
    stated = StatedFacts(instance_type="ml.p3.8xlarge").fill_gaps_from(from_describe(document))
    made = import_path(folders.sagemaker(tmp_path, 60), stated)
    assert [node.facts.instance_type for node in made.timeline.nodes] == ["ml.p3.8xlarge"] * 2


def test_the_type_that_sagemaker_selected_counts():
    resources = {
        "InstancePreferences": [{"InstanceType": "ml.p4d.24xlarge"}],
        "SelectedInstanceType": "ml.p3.2xlarge",
        "SelectedInstanceCount": 3,
    }
    stated = from_describe(described(ResourceConfig=resources))
    assert stated.groups == (MachineGroup("ml.p3.2xlarge", 3),)


def test_a_group_that_is_unknown_costs_itself(tmp_path):
    groups = [
        {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1},
        {"InstanceType": 7, "InstanceCount": 2},
        "nothing",
    ]
    document = described(ResourceConfig={"InstanceGroups": groups}, BillableTimeInSeconds=3600)
    made, judged = report(folders.sagemaker(tmp_path, 60), document)
    assert judged.cost.total_usd == Decimal("3.825")
    assert judged.cost_is_at_least
    said = " ".join(made.imported.tally.notes)
    assert "ResourceConfig.InstanceGroups[1].InstanceType is no text" in said
    assert "ResourceConfig.InstanceGroups[2] is no object" in said


def test_more_machines_than_a_run_can_have_are_at_least_that_many(tmp_path):
    document = described(ResourceConfig={"InstanceType": "ml.p3.2xlarge", "InstanceCount": 900})
    made, judged = report(folders.sagemaker(tmp_path, 60), document)
    assert len(made.timeline.nodes) == 500
    assert judged.cost_is_at_least
    assert "that of 500 machines" in " ".join(judged.cost_notes)


def test_what_is_said_of_many_groups_is_short_enough_to_be_stored(tmp_path):
    groups = [{"InstanceType": f"ml.{n}" + "x" * 500, "InstanceCount": 1} for n in range(60)]
    document = described(ResourceConfig={"InstanceGroups": groups})
    made, judged = report(folders.sagemaker(tmp_path, 60), document)
    assert (len(made.timeline.nodes), judged.cost.total_usd) == (50, None)
    for node in made.timeline.nodes:
        assert from_billing(as_document(node.billing)) == node.billing


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["ml.p3.2xlarge", "1e999", "2026-01-01T00:00:00", "Stopped"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_FULL: dict[str, Any] = {
    **DESCRIBED,
    "TrainingTimeInSeconds": 300,
    "BillableTimeInSeconds": 100,
    "EnableManagedSpotTraining": True,
    "SecondaryStatus": "Completed",
    "FailureReason": "",
    "WarmPoolStatus": {"Status": "Reused", "ResourceRetainedBillableTimeInSeconds": 60},
    "ResourceConfig": {
        "InstanceGroups": [
            {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "InstanceGroupName": "gpu"},
            {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "InstanceGroupName": "cpu"},
        ],
        "TrainingPlanArn": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p",
        "InstancePlacementConfig": {"PlacementSpecifications": [{"UltraServerId": "u"}]},
    },
}


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the place of each value in a document."""
    found = [place] if place else []
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        found += [each for key, below in inner for each in places(below, (*place, key))]
    return found


@hypotheses(max_examples=300, deadline=None)
@given(place=st.sampled_from(places(_FULL)), value=_JSON, is_missing=st.booleans())
def test_a_hostile_field_costs_itself(place, value, is_missing):
    document = copy.deepcopy(_FULL)
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    if is_missing:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    if "TrainingJobName" not in document:
        return
    stated = from_describe(document)
    assert stated.billing is not None
    if place[0] != "ResourceConfig":
        assert [(each.instance_type, each.count) for each in stated.groups] == [
            ("ml.p3.2xlarge", 1),
            ("ml.c5.xlarge", 2),
        ]
    if place[0] != "BillableTimeInSeconds":
        assert stated.billing.billed_seconds == 100
    if place[0] != "WarmPoolStatus":
        assert stated.billing.retained_seconds == 60


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BillableTimeInSeconds", "4920"),
        ("BillableTimeInSeconds", -1),
        ("BillableTimeInSeconds", 1e308),
        ("BillableTimeInSeconds", 10**30),
        ("TrainingStartTime", "yesterday"),
        ("TrainingEndTime", -1e300),
        ("ResourceConfig", [1]),
        ("WarmPoolStatus", "Reused"),
        ("HyperParameters", "none"),
        ("TrainingJobArn", 3),
    ],
)
def test_the_note_on_a_field_names_it(name, value, tmp_path):
    made, _ = report(folders.sagemaker(tmp_path, 60), described(**{name: value}))
    assert f"The description's {name} is no " in " ".join(made.imported.tally.notes)


@given(document=_JSON)
@hypotheses(deadline=None)
def test_what_is_no_description_is_refused_with_the_command(document):
    if isinstance(document, dict) and "TrainingJobName" in document:
        return
    with pytest.raises(NotImportableError, match="aws sagemaker describe-training-job"):
        from_describe(document)
