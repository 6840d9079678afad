"""Refusals name their type: its page explains it, and tells the agent which are final."""

from __future__ import annotations

import gzip
import json
import re
from html import unescape
from uuid import uuid4

import pytest
from django.test import Client
from trimtab.wire import FINAL_PROBLEMS, encode_segment, is_final

from tests.html import read_page
from tests.running_service import CHECKOUT
from webapp.http.problem_types import BY_NAME, TYPES, find_general_type

pytestmark = pytest.mark.django_db


def _type(answer) -> str:
    return answer.json()["type"].partition("#")[2]


def _document(agent, seq: int, **changes: object) -> bytes:
    document = json.loads(gzip.decompress(encode_segment(agent.segment(seq))))
    return gzip.compress(json.dumps(document | changes).encode())


def test_every_type_leads_to_its_place_on_a_page_that_everybody_may_read():
    page = Client().get("/problems/")
    assert page.status_code == 200
    text = unescape(read_page(page))
    for each in TYPES:
        assert each.uri == f"http://127.0.0.1:8000/problems/#{each.name}"
        assert text.count(f'id="{each.name}"') == 1
        assert each.title in text


def test_the_documents_name_every_type_and_which_are_final():
    text = (CHECKOUT / "docs" / "wire.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
    assert {name: (int(status), then == "final") for name, status, _, then in rows} == {
        each.name: (each.status, each.is_final) for each in TYPES
    }


def test_only_known_types_of_the_services_page_are_final():
    assert set(BY_NAME) > FINAL_PROBLEMS
    assert all(is_final(each.uri) == (each.name in FINAL_PROBLEMS) for each in TYPES)
    assert is_final("https://host/below/problems/#segment-conflict")
    for other in ("about:blank", "", None, 4, "#segment-conflict", "https://[/problems/#x"):
        assert not is_final(other)
    assert not is_final("https://host/docs#segment-conflict")


def test_no_general_type_is_final():
    assert not any(find_general_type(status).is_final for status in range(400, 600))
    assert (find_general_type(418).name, find_general_type(599).name) == (
        "invalid-request",
        "server-error",
    )


def test_a_refused_segment_says_whether_it_is_refused_for_good(agent, stranger):
    agent.put(agent.segment(0))
    assert _type(agent.put(agent.segment(0, duration_ms=9_000))) == "segment-conflict"
    assert _type(agent.put_body(1, _document(agent, 1, machine_id=""))) == "invalid-upload"
    assert _type(agent.put_body(2, _document(agent, 1))) == "invalid-upload"
    assert _type(agent.put_body(1, b"<html>")) == "unreadable-body"
    assert _type(agent.put_body(1, gzip.compress(b"{}")[:-4])) == "unreadable-body"
    assert _type(agent.put_body(1, _document(agent, 1, version=99))) == "unsupported-version"
    stranger.run_id = agent.run_id
    assert _type(stranger.put(stranger.segment(0))) == "run-in-another-workspace"
    agent.run_id = uuid4()
    assert _type(agent.put(agent.segment(3))) == "session-conflict"


def test_a_refused_declaration_or_artefact_says_so_too(agent):
    agent.declare(tags={f"a{n}": "x" for n in range(400)})
    assert _type(agent.declare(tags={f"b{n}": "x" for n in range(400)})) == "too-many-labels"
    assert _type(agent.put_artefact(b"a", sha256="0" * 64)) == "unreadable-body"
    assert _type(agent.put_artefact(b"a", kind="Not A Kind")) == "invalid-upload"
    agent.run_id = uuid4()
    unknown = agent.put_artefact(b"a", **{"X-Trimtab-Job": ""})
    assert (unknown.status_code, _type(unknown)) == (400, "unknown-run")


def test_other_errors_of_the_api_have_a_type_too(agent):
    client = Client()
    assert _type(client.get("/api/v1/nowhere")) == "not-found"
    assert _type(client.delete(f"/api/v1/runs/{agent.run_id}/segments/1/2")) == "method-not-allowed"
    agent.token = "tt_wrong"
    answer = agent.put(agent.segment(0))
    assert (_type(answer), answer.json()["title"]) == ("invalid-token", "Invalid token")
