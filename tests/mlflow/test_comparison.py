"""MLflow's own clients against MLflow's own servers and against ours: what differs is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mlflow.compared.calls_of import read_areas
from tests.mlflow.compared.comparison import Comparison, compare, unused_patterns
from tests.mlflow.compared.differences import DIFFERENCES
from tests.mlflow.compared.servers import make_calls, mlflow_server
from tests.mlflow.compared.table import PAGE, written
from tests.mlflow.pythons import VARIABLES
from tests.running_service import Service, manage

LEAST_CALLS = 200
TOKEN = """
from webapp.accounts.models import Token, Workspace
workspace = Workspace.objects.create(name="Compared")
print("token", Token.make(workspace, "all", ["ingest", "read", "write"])[1])
"""


def test_the_manual_shows_what_the_comparison_knows():
    """The command `python -m tests.mlflow.compared.table` writes it."""
    page = PAGE.read_text()
    assert written(page) == page


def test_each_difference_is_of_an_area_and_of_calls_that_are_made():
    calls = {area.name: area.calls for area in read_areas()}
    for difference in DIFFERENCES:
        for pattern in difference.calls:
            text = pattern.partition(": ")[2] or pattern
            assert any(text.partition(" #")[0] in call for call in calls[difference.area]), pattern


def test_a_difference_that_is_not_written_is_told():
    call = "01_experiments: client.get_experiment(first)"
    given = {"value": 1}
    assert compare({call: given}, {call: given}).equal == 1
    assert len(compare({call: given}, {call: {"value": 2}}).undocumented) == 1
    assert len(compare({call: given}, {call: {"error": "RestException"}}).raising) == 1
    assert len(compare({call: {"error": "RestException"}}, {call: given}).undocumented) == 1


def test_a_written_difference_that_no_call_needs_is_told():
    assert len(unused_patterns([Comparison()])) == sum(len(each.calls) for each in DIFFERENCES)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("compared") / "data").start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def comparisons(
    service: Service, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Comparison]:
    found = {}
    for requirement in sorted(VARIABLES):
        folder = tmp_path_factory.mktemp("peer")
        found[requirement] = compare_with(service, requirement, folder)
        print(f"\n{requirement}: {found[requirement].line()}")  # noqa: T201
    return found


def compare_with(service: Service, requirement: str, folder: Path) -> Comparison:
    """Make the calls at a new server of this version, and in a new workspace of the service."""
    with mlflow_server(requirement, folder) as url:
        theirs = make_calls(requirement, url)
    output, _ = manage(service.data_dir, "shell", "-c", TOKEN).communicate(timeout=120)
    ours = make_calls(requirement, service.url, output.split("token ")[1].split()[0])
    return compare(theirs, ours)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(4500)
@pytest.mark.parametrize("requirement", sorted(VARIABLES))
def test_every_difference_is_written_and_none_raises(comparisons, requirement):
    compared = comparisons[requirement]
    assert compared.calls >= LEAST_CALLS
    assert not compared.raising, "\n".join(compared.raising)
    assert not compared.undocumented, "\n".join(compared.undocumented)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(4500)
def test_every_written_difference_exists(comparisons):
    assert unused_patterns(list(comparisons.values())) == []
