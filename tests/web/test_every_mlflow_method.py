"""Every method of MLflow's API, as everybody who might call it. The walk itself is in
`mlflow_walk`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.web import mlflow_walk as walk
from webapp.mlflow_api import rights
from webapp.mlflow_api.methods import METHODS, Method, experiments
from webapp.mlflow_api.rights import FILES

READ_ANY = replace(rights.KNOW_JOB, find=rights.CHANGE_JOB.find)
CHANGE_ANY = replace(rights.CHANGE_JOB, scopes=rights.UPLOADERS)


@pytest.fixture
def world(db, settings, tmp_path) -> walk.World:
    settings.OBJECTS_URL = str(tmp_path / "objects")
    return walk.world()


def test_every_method_says_who_may_call_it():
    assert set(METHODS) | set(FILES) == set(walk.ALLOWED)


def test_a_method_that_the_table_does_not_name_is_noticed(monkeypatch):
    monkeypatch.setitem(METHODS, ("POST", "runs/rename"), METHODS["POST", "runs/update"])
    with pytest.raises(AssertionError):
        test_every_method_says_who_may_call_it()


def test_a_method_is_for_whom_it_says(world):
    """Each call is rolled back, so that all meet the same rows."""
    assert len(world.people) == 12
    problems = []
    rights_of = {key: method.right for key, method in METHODS.items()} | FILES
    print("\n" + walk.line("", world.people))  # noqa: T201
    for verb, path in sorted(walk.ALLOWED):
        wrong, statuses = walk.method_problems(world, verb, path)
        cells = [*statuses.values(), f"  {rights_of[verb, path].touches}"]
        print(walk.line(f"{verb} {path}", cells))  # noqa: T201
        problems += wrong
    print(f"{len(walk.ALLOWED)} methods, {len(problems)} leaks, changes or refusals")  # noqa: T201
    assert problems == []


@pytest.mark.parametrize(
    ("key", "broken", "told"),
    [
        (
            ("GET", "experiments/get"),
            Method(READ_ANY, experiments.get),
            "as idle was sent the job's name",
        ),
        (
            ("POST", "experiments/set-experiment-tag"),
            Method(CHANGE_ANY, experiments.set_tag),
            "as idle changed something",
        ),
    ],
)
def test_the_walk_is_red_when_a_right_is_too_wide(world, monkeypatch, key, broken, told):
    monkeypatch.setitem(METHODS, key, broken)
    problems, _ = walk.method_problems(world, *key)
    assert any(told in problem for problem in problems), problems
