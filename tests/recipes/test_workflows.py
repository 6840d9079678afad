"""Airflow's task and the workflow of GitHub Actions: their commands run as they are written."""

from __future__ import annotations

import runpy
import sys
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
import yaml

from tests.agent.conftest import TOKEN
from tests.agent.service import Reply, Request, Service
from tests.recipes.conftest import EXAMPLES, STAND_INS, Place, states


def test_a_retry_of_an_airflow_task_is_another_attempt(place: Place, environment, service):
    operator = airflow_task()
    options = operator.options
    assert options["append_env"]
    assert options["retries"] > 0
    (place.folder / "train.py").write_text("raise SystemExit(3)")
    for number in (1, 2):
        known = {
            "conn": SimpleNamespace(
                trimtab=SimpleNamespace(host=service.url, password=TOKEN),
            ),
            "dag": SimpleNamespace(dag_id="digits"),
            "ti": SimpleNamespace(task_id=options["task_id"], try_number=number),
            "run_id": "manual__2026-11-23T07:00:00+00:00",
        }
        own = {name: jinja2.Template(text).render(known) for name, text in options["env"].items()}
        command = options["bash_command"].replace("/opt/digits", str(place.folder))
        assert place.run(environment | own, "bash", "-c", command) == 3
    assert len({d.run_id for d in service.declarations}) == 1
    assert {d.attempt for d in service.declarations} == {0, 1}
    assert service.declarations[-1].tags == {"airflow_task": "train"}
    assert service.declarations[-1].job == "digits"
    assert states(service) == ["failed", "failed"]


def airflow_task() -> Any:
    sys.path.insert(0, str(STAND_INS / "packages"))
    try:
        runpy.run_path(str(EXAMPLES / "airflow" / "dag.py"))
        [task] = sys.modules["airflow.providers.standard.operators.bash"].tasks
        return task
    finally:
        sys.path.remove(str(STAND_INS / "packages"))
        for name in [name for name in sys.modules if name.partition(".")[0] == "airflow"]:
            del sys.modules[name]


# GitHub Actions

WORKFLOW = yaml.safe_load((EXAMPLES / "github-actions" / "cost-comment.yml").read_text())
PIP = '#!/bin/sh\necho "$@" >> "$RUNNER_TEMP/installed"\n'
PYTHON = """\
#!/bin/sh
case "$1 $2" in
"-m venv") mkdir -p "$3/bin" && cp "$RUNNER_TEMP/pip" "$3/bin/pip" ;;
*) exec {python} "$@" ;;
esac
"""
SIDE = {"number": 12, "state": "finished", "is_complete": True}


def answer(change: str) -> Any:
    """Answer as the service: everything is taken, and runs are compared."""

    def reply(request: Request) -> Reply:
        if "/compare?" in request.path:
            sides = {"a": SIDE, "b": SIDE | {"number": 13}}
            document = {"markdown": "| cost |\n", "cost_change_pct": change, **sides}
            return Reply(document=document)
        return Reply()

    return reply


def run_workflow(place: Place, environment: dict[str, str], given: dict[str, str]) -> list[int]:
    """Return the exit code of each step with commands; those after a failure run if their `if` says
    so.
    """
    [job] = WORKFLOW["jobs"].values()
    codes: list[int] = []
    for step in job["steps"]:
        if "run" not in step or (any(codes) and step.get("if") != "${{ !cancelled() }}"):
            continue
        texts = job["env"] | step.get("env", {})
        own = {name: given.get(text, text) for name, text in texts.items()}
        codes.append(place.run(environment | own, "bash", "-e", "-c", step["run"]))
    return codes


@pytest.fixture
def runner(place: Place, environment, tmp_path) -> dict[str, str]:
    place.stand_in("call")
    (place.programs / "call").rename(place.programs / "gh")
    place.program("python3", PYTHON.format(python=sys.executable))
    (tmp_path / "pip").write_text(PIP)
    (tmp_path / "pip").chmod(0o755)
    return environment | {"RUNNER_TEMP": str(tmp_path), "GITHUB_PATH": str(tmp_path / "path")}


def given(service: Service, baseline: str) -> dict[str, str]:
    """Return the values of the workflow's expressions."""
    return {
        "${{ vars.TRIMTAB_URL }}": service.url,
        "${{ vars.TRIMTAB_BASELINE }}": baseline,
        "${{ github.event.number }}": "7",
        "${{ secrets.TRIMTAB_TOKEN }}": TOKEN,
        "${{ github.token }}": "github-token",
    }


@pytest.mark.parametrize(("change", "compared"), [("3.1", 0), ("25.0", 1)])
def test_a_pull_request_gets_the_comparison_even_if_it_costs_too_much(
    place: Place, runner, service, tmp_path, change, compared
):
    service.answer = answer(change)
    assert run_workflow(place, runner, given(service, "digits#12")) == [0, 0, compared, 0]
    installed = (tmp_path / "installed").read_text()
    assert installed == f"install {service.url}/agent/trimtab-0.1.0-py3-none-any.whl\n"
    [asked] = [r.path for r in service.requests if "/compare?" in r.path]
    [run] = {str(d.run_id) for d in service.declarations}
    assert "a=digits%2312" in asked
    assert f"b={run}" in asked
    assert service.declarations[-1].tags == {"pull_request": "7"}
    words = ["pr", "comment", "7", "--edit-last", "--create-if-none", "--body-file", "cost.md"]
    assert place.called() == [["gh", *words]]
    assert (place.folder / "cost.md").read_text() == "| cost |\n"


def test_without_an_answer_nothing_is_commented(place: Place, runner, service):
    service.answer = lambda request: Reply(404 if "/compare?" in request.path else 200)
    assert run_workflow(place, runner, given(service, "digits#12")) == [0, 0, 2, 0]
    assert not place.calls.exists()


def test_only_pull_requests_that_get_the_secret_run():
    [job] = WORKFLOW["jobs"].values()
    assert job["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
    assert WORKFLOW["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert WORKFLOW[True] == "pull_request"  # YAML 1.1 reads `on` as a boolean
