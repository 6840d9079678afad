"""The words of a run's page where there is nothing to change, or nothing to tell it by."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from trimtab.wire import Block, StepBlock

from tests.html import read_page
from tests.service.uploads import SEGMENT_MS, FakeAgent
from tests.web import factories
from webapp.advice.models import Recommendation
from webapp.analysis.tasks import evaluate

pytestmark = pytest.mark.django_db


def advice_of(client: Any, workspace: Any, agent: FakeAgent, **series: float) -> str:
    """Return the text of the page's advice on a run that never waits for its data."""
    times = list(range(0, SEGMENT_MS, 500))
    columns = {f"host.{name}": [value] * len(times) for name, value in series.items()}
    agent.declare()
    for segment in agent.segments(6):
        count = len(segment.steps[0].start_us)
        starts, durations = segment.steps[0].start_us, [200_000] * count
        segment.steps = [StepBlock(0, "train", starts, durations, [0] * count, [64] * count)]
        segment.blocks = [Block(times, columns)]
        assert agent.put(segment).status_code == 200
    evaluate(str(agent.run_id))
    client.force_login(factories.member(workspace))
    page = read_page(client.get(f"/runs/{agent.run_id}/"))
    [section] = re.findall(r'<section class="panel" id="advice".*?</section>', page, re.DOTALL)
    return unescape(re.sub(r"<[^>]+>|\s+", " ", section))


def test_a_healthy_run_has_nothing_to_change_and_lists_what_was_checked(
    client: Any, workspace: Any, agent: FakeAgent
) -> None:
    agent.instance_type = "c8i.large"
    told = advice_of(client, workspace, agent, cpu_busy_pct=90.0, memory_used_bytes=3.5 * 2**30)
    assert [(r.kind, r.title, r.evidence) for r in Recommendation.objects.all()] == []
    assert "Nothing to change" in told
    assert "Machine size: No machine that fits the run costs clearly less." in told
    assert "waited for data" in told


def test_without_memory_samples_no_smaller_machine_is_advised_but_told_what_is_missing(
    client: Any, workspace: Any, agent: FakeAgent
) -> None:
    told = advice_of(client, workspace, agent, cpu_busy_pct=5.0)
    assert not Recommendation.objects.filter(kind="change_instance_type").exists()
    assert "Machine size: Not judged: how much memory was in use" in told
    assert "no other machine pays" not in told
    assert "not known" in told
