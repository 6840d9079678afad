"""The service lost power, or has an older copy of its data: it asks agents for what it lacks."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from uuid import UUID

import pytest
from trimtab.wire import encode_segment

from tests.service.uploads import FakeAgent
from webapp.analysis.models import Analysis
from webapp.ingest import resend
from webapp.runs.models import Segment

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("both_ways")]


@pytest.fixture(autouse=True)
def a_process_that_has_just_started(monkeypatch):
    monkeypatch.setattr(resend, "_check_at", {})


@pytest.fixture
def uploaded(agent) -> FakeAgent:
    for seq in range(6):
        assert agent.put(agent.segment(seq)).json()["resend"] == []
    return agent


def _asked(agent: FakeAgent, seq: int, answered: str) -> list[int]:
    body = encode_segment(agent.segment(seq))
    answer = agent.put_body(seq, body, **{resend.HEADER: answered})
    assert answer.status_code == 200
    pairs = answer.json()["resend"]
    assert {UUID(session) for session, _ in pairs} <= {agent.session_id}
    return [number for _, number in pairs]


def _objects(settings) -> list[Path]:
    return sorted(Path(settings.OBJECTS_URL).rglob("*.segment"))


def test_it_asks_for_segments_whose_rows_or_objects_are_gone(uploaded, settings):
    Segment.objects.filter(seq__in=[1, 4]).delete()
    _objects(settings)[2].unlink()
    assert _asked(uploaded, 6, "4-5,0-3") == [1, 2, 4]


def test_it_asks_for_everything_if_the_session_is_unknown(agent):
    assert _asked(agent, 9, "0-2") == [0, 1, 2]


def test_what_is_sent_again_is_stored_once_and_judged_again(uploaded, settings):
    before = {path: path.read_bytes() for path in _objects(settings)}
    Segment.objects.filter(seq=1).delete()
    _objects(settings)[2].unlink()
    wanted = Analysis.objects.get().wanted
    answers = [uploaded.put(uploaded.segment(seq)).json() for seq in (1, 2, 3)]
    assert [answer["duplicate"] for answer in answers] == [False, True, True]
    assert {path: path.read_bytes() for path in _objects(settings)} == before
    assert sorted(Segment.objects.values_list("seq", flat=True)) == list(range(6))
    assert Analysis.objects.get().wanted == wanted + 2
    assert _asked(uploaded, 6, "0-5") == []


def test_it_does_not_ask_for_compacted_samples(uploaded, settings):
    Segment.objects.update(compacted_at=uploaded_at(), object_key="")
    shutil.rmtree(settings.OBJECTS_URL)
    assert _asked(uploaded, 6, "0-5") == []


def uploaded_at():
    return Segment.objects.latest("received_at").received_at


def test_it_asks_once_and_again_after_five_minutes(uploaded, monkeypatch):
    Segment.objects.filter(seq=0).delete()
    assert _asked(uploaded, 6, "0-5") == [0]
    assert _asked(uploaded, 7, "0-6") == []
    later = time.monotonic() + resend.CHECK_SECONDS
    monkeypatch.setattr(resend.time, "monotonic", lambda: later)
    assert _asked(uploaded, 8, "0-7") == [0]


def test_it_asks_in_parts_for_very_many(uploaded, monkeypatch):
    Segment.objects.all().delete()
    monkeypatch.setattr(resend, "MOST_ASKED", 4)
    assert _asked(uploaded, 6, "0-5") == [0, 1, 2, 3]
    later = time.monotonic() + resend.MORE_SECONDS
    monkeypatch.setattr(resend.time, "monotonic", lambda: later)
    assert _asked(uploaded, 7, "0-5") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "answered", ["", "x", "-1", "1-", "5-2", "1,,2", "0-1;2", "٣", "9" * 11, "0," * 100 + "0"]
)
def test_it_ignores_what_it_does_not_understand(uploaded, answered):
    Segment.objects.filter(seq=0).delete()
    assert _asked(uploaded, 6, answered) == []


def test_a_huge_range_costs_little(uploaded):
    spans = ",".join(f"{n}-9999999999" for n in range(100))
    asked = _asked(uploaded, 6, spans)
    assert asked == list(range(7, 7 + resend.MOST_ASKED))
