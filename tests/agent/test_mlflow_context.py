"""The variable from which MLflow's clients take tags, as the agent sets it."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

SHOW = "printenv MLFLOW_RUN_CONTEXT"


@pytest.mark.parametrize("before", ["", '{"team": "vision"}'])
@pytest.mark.parametrize("options", [(), ("--no-hook",)])
def test_the_tag_names_the_agent_s_session_beside_other_tags(trimtab, environment, before, options):
    known = environment | {"MLFLOW_RUN_CONTEXT": before, "TRIMTAB_RUN": "a" * 32}
    done = trimtab(known, "run", "--job", "digits", *options, "--", "sh", "-c", SHOW)
    tags = json.loads(done.stdout)
    session = json.loads(tags.pop("trimtab.agent"))
    assert tags == json.loads(before or "{}")
    assert session["run"] == str(UUID("a" * 32))
    assert (session["job"], session["attempt"]) == ("digits", 0)
    assert UUID(session["session"])
    assert session["machine"]
    assert session["boot"]
    assert session["started_at_ns"] > 1_700_000_000 * 10**9


@pytest.mark.parametrize("before", ["nonsense", "[1]"])
def test_a_variable_of_another_form_stays_as_it_is(trimtab, environment, before):
    known = environment | {"MLFLOW_RUN_CONTEXT": before}
    assert trimtab(known, "run", "--", "sh", "-c", SHOW).stdout == f"{before}\n"
