"""One segment is sent by many requests at the same moment."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from tests.service.uploads import FakeAgent
from webapp.runs.models import Segment

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_same_segment_sent_many_times_at_once_is_kept_once(agent: FakeAgent) -> None:
    for seq in range(2):
        assert agent.put(agent.segment(seq)).status_code == 200
    answers: list[bool] = []

    def put() -> None:
        try:
            answers.append(agent.put(agent.segment(2)).json()["duplicate"])
        finally:
            connection.close()

    threads = [threading.Thread(target=put) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(answers) == [False] + [True] * 7
    assert Segment.objects.filter(seq=2).count() == 1
