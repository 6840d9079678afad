"""The messages that beat puts into the queue: never too old, never too many."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from celery.beat import ScheduleEntry
from celery.schedules import schedule
from django.conf import settings
from kombu.exceptions import OperationalError

from webapp.service import beat

QUEUE = "schedule"
SHORTEST_SECONDS = 5
"""The shortest of the periods in the schedule."""


@pytest.fixture
def scheduler(tmp_path) -> Iterator[beat.Scheduler]:
    """Make a scheduler on the queue of the tests' Redis, emptied."""
    beat.app.conf.broker_url = settings.CELERY_BROKER_URL
    made = beat.Scheduler(beat.app, schedule_filename=str(tmp_path / "schedule"))
    made.connection.default_channel.queue_purge(QUEUE)
    yield made
    made.connection.default_channel.queue_purge(QUEUE)
    made.close()


def _waiting(scheduler: beat.Scheduler) -> int:
    channel = scheduler.connection.default_channel
    return int(channel.queue_declare(QUEUE).message_count)


def _entry(period_seconds: float) -> ScheduleEntry:
    return ScheduleEntry(
        "sweep",
        "background.sweep",
        schedule=schedule(period_seconds),
        options={"queue": QUEUE},
        app=beat.app,
    )


def test_what_is_frequent_is_sent_until_enough_of_it_waits(scheduler):
    for _ in range(beat.MOST_WAITING + 10):
        scheduler.apply_entry(_entry(5), producer=scheduler.producer)
    assert _waiting(scheduler) == beat.MOST_WAITING
    scheduler.connection.default_channel.basic_get(QUEUE, no_ack=True)
    scheduler.apply_entry(_entry(5), producer=scheduler.producer)
    assert _waiting(scheduler) == beat.MOST_WAITING


def test_what_is_daily_is_sent_however_much_waits(scheduler):
    for _ in range(beat.MOST_WAITING):
        scheduler.apply_entry(_entry(5), producer=scheduler.producer)
    scheduler.apply_entry(_entry(86_400), producer=scheduler.producer)
    assert _waiting(scheduler) == beat.MOST_WAITING + 1


def test_nothing_expires_so_that_a_late_sweep_is_done(scheduler):
    for name, entry in settings.CELERY_BEAT_SCHEDULE.items():
        assert "expires" not in entry["options"], name
    scheduler.apply_entry(_entry(5), producer=scheduler.producer)
    message = scheduler.connection.default_channel.basic_get(QUEUE, no_ack=True)
    assert message.headers["expires"] is None


def test_it_sends_what_is_due_after_the_clock_was_set_back(scheduler):
    """Celery would wait until the clock is again where it was."""
    _tick_until_idle(scheduler)
    for entry in scheduler.schedule.values():
        entry.last_run_at += timedelta(hours=1)
    scheduler.populate_heap()
    scheduler.connection.default_channel.queue_purge(QUEUE)
    assert _tick_until_idle(scheduler) <= SHORTEST_SECONDS
    first = scheduler.connection.default_channel.basic_get(QUEUE, no_ack=True)
    assert first.headers["task"] == "background.mend_clock"
    (set_back_seconds,), *_ = first.decode()
    assert set_back_seconds == pytest.approx(3600, abs=60)


def test_it_tries_again_while_workers_cant_be_told_that_the_clock_was_set_back(
    scheduler, monkeypatch
):
    _tick_until_idle(scheduler)
    for entry in scheduler.schedule.values():
        entry.last_run_at += timedelta(hours=1)
    with monkeypatch.context() as away:
        away.setattr(scheduler, "send_task", _fail)
        assert scheduler.tick() <= beat.AGAIN_SECONDS
    scheduler.connection.default_channel.queue_purge(QUEUE)
    _tick_until_idle(scheduler)
    first = scheduler.connection.default_channel.basic_get(QUEUE, no_ack=True)
    assert first.headers["task"] == "background.mend_clock"


def _fail(*_: object, **__: object) -> None:
    raise OperationalError("Redis is away")


def _tick_until_idle(scheduler: beat.Scheduler) -> float:
    """Return the seconds until something is due."""
    while not (seconds := scheduler.tick()):
        pass
    return seconds
