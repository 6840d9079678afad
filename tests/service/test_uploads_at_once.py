"""One segment is sent by many requests at the same moment."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connection

from tests.service.uploads import FakeAgent
from webapp.runs.models import Job, Segment

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("earlier", [0, 2])
def test_the_same_segment_sent_many_times_at_once_is_kept_once(
    agent: FakeAgent, earlier: int
) -> None:
    """Each request, without earlier ones, finds that run, node and session are new."""
    for seq in range(earlier):
        assert agent.put(agent.segment(seq)).status_code == 200
    answers: list[bool] = []

    def put() -> None:
        try:
            while (answer := agent.put(agent.segment(earlier))).status_code == 503:
                time.sleep(0.05)  # SQLite in memory lets nobody wait for a lock
            answers.append(answer.json()["duplicate"])
        finally:
            connection.close()

    threads = [threading.Thread(target=put) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(answers) == [False] + [True] * 7
    assert Segment.objects.filter(seq=earlier).count() == 1
    assert Job.objects.get().runs_made == 1, "no number is used up"
