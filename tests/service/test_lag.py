"""The time from upload to judged: what is counted, what waits, what Prometheus reads, what it
changes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from redis import Redis

from tests.html import read_page
from tests.service.test_stopping import RESTS, WORKS, live, minute
from tests.service.uploads import FakeAgent
from tests.web import factories
from webapp.analysis import queue
from webapp.analysis.models import Analysis
from webapp.analysis.tasks import evaluate
from webapp.background import claims, lag
from webapp.http import redis_outage
from webapp.runs.models import Run

KIND = queue.KIND
SECOND = timedelta(seconds=1)
TOKEN = "scrape-me"
FIRST = UUID("00000000-0000-0000-0000-000000002a17")
"""A run whose analyses are as close together as those of any run."""


@pytest.fixture(autouse=True)
def nothing_counted() -> Iterator[None]:
    redis = redis_outage.client(settings.REDIS_URL)
    forget(redis)
    yield
    forget(redis)


def forget(redis: Redis) -> None:
    """Forget what was counted by this process's tests: others run beside them."""
    for key in redis.scan_iter(f"{settings.CACHES['default']['KEY_PREFIX']}:lag:*"):
        redis.delete(key)


def figures() -> lag.Lag:
    found = lag.lag(KIND, time.time())
    assert found is not None
    return found


def waited(agent: FakeAgent, seconds: float) -> None:
    """Let what waits have waited so much longer."""
    since = timezone.now() - timedelta(seconds=seconds)
    Analysis.objects.filter(run=agent.run_id).update(waiting_since=since, due_at=since)


# Counting


@pytest.mark.django_db(transaction=True)
def test_it_is_counted_from_the_first_upload_until_it_was_judged(agent):
    agent.put(agent.segment(0))
    waited(agent, 20)
    agent.put(agent.segment(1))
    assert evaluate(agent.run_id)
    assert figures().count == 1
    assert 20 <= figures().longest_seconds < 24
    assert Analysis.objects.get().waiting_since is None


@pytest.mark.django_db(transaction=True)
def test_a_look_that_finds_nothing_has_judged_it_too(agent):
    live(agent, WORKS * 3)
    evaluate(agent.run_id)
    agent.put(minute(agent, 3, works=True))
    waited(agent, 7)
    assert evaluate(agent.run_id)
    analysis = Analysis.objects.get()
    assert (analysis.looked_at is not None, analysis.waiting_since) == (True, None)
    assert figures().count == 2
    assert 7 <= figures().longest_seconds < 9


@pytest.mark.django_db(transaction=True)
def test_what_comes_while_it_is_judged_goes_on_waiting(agent):
    agent.put(agent.segment(0))
    held = queue.claim(agent.run_id)
    agent.put(agent.segment(1))
    assert queue.finish_analysis(held, lambda run: None, is_final=False)
    analysis = Analysis.objects.get()
    assert analysis.waiting_since == analysis.due_at
    assert lag.waiting_since(KIND.rows, timezone.now()) is None
    assert lag.waiting_since(KIND.rows, analysis.due_at) == analysis.due_at


@pytest.mark.django_db(transaction=True)
def test_what_comes_before_a_look_is_due_waits_from_then_on(agent):
    """Nobody waits for a look while none could find anything."""
    agent.started_at_ns = time.time_ns() - 180 * 10**9
    live(agent, WORKS * 3)
    evaluate(agent.run_id)
    due_at = Analysis.objects.get().due_at
    assert due_at > timezone.now() + queue.LOOK_AGAIN_AFTER
    agent.put(minute(agent, 3, works=True))
    assert Analysis.objects.get().waiting_since == due_at > timezone.now()
    queue.queue_run(Run.objects.get(), is_upload=True)
    sooner = Analysis.objects.get()
    assert sooner.waiting_since == sooner.due_at < due_at


@pytest.mark.django_db(transaction=True)
def test_failures_and_kills_are_part_of_the_wait(agent):
    agent.put(agent.segment(0))
    waited(agent, 30)
    claims.fail(queue.claim(agent.run_id), "no")
    assert lag.lag(KIND, time.time()) is None
    queue.claim(agent.run_id)
    Analysis.objects.update(leased_until=timezone.now() - SECOND)
    evaluate(agent.run_id)
    assert figures().longest_seconds >= 30


@pytest.mark.django_db(transaction=True)
def test_what_was_not_uploaded_is_not_waited_for(agent):
    agent.put(agent.segment(0, last=True))
    evaluate(agent.run_id)
    before = figures().count
    queue.queue_run(Run.objects.get(), is_upload=False)
    assert lag.waiting_since(KIND.rows, timezone.now()) is None
    evaluate(agent.run_id)
    assert figures().count == before


@pytest.mark.django_db(transaction=True)
def test_without_redis_runs_are_judged_all_the_same(agent, settings, monkeypatch):
    monkeypatch.setattr(lag, "_outage", redis_outage.Outage("out"))
    agent.put(agent.segment(0))
    settings.REDIS_URL = "redis://127.0.0.1:1"
    assert evaluate(agent.run_id)
    assert Analysis.objects.get().finished_at is not None
    assert lag.lag(KIND, time.time()) is None


@hypothesis_settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(0.02, 90_000), min_size=1, max_size=60))
def test_figures_are_at_most_a_tenth_too_large(seconds):
    forget(redis_outage.client(settings.REDIS_URL))
    for each in seconds:
        lag.count(KIND, timedelta(seconds=each))
    found, ordered = figures(), sorted(seconds)
    exact = (ordered[(len(ordered) - 1) // 2], ordered[-1], ordered[-1])
    told = (found.p50_seconds, found.p99_seconds, found.longest_seconds)
    assert found.count == len(seconds)
    for figure, true in zip(told, exact, strict=True):
        assert true * 0.999 <= figure <= true * 1.101


def test_it_forgets_what_was_counted_before_the_window():
    lag.count(KIND, SECOND)
    assert figures().count == 1
    assert lag.lag(KIND, time.time() + 60 * (lag.MINUTES + 1)) is None


# Prometheus


@pytest.fixture
def scraped(settings) -> Client:
    settings.METRICS_TOKEN = TOKEN
    return Client(headers={"Authorization": f"Bearer {TOKEN}"})


def metric(client: Client, name: str, **labels: str) -> float | None:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    inside = ",".join(f'{label}="{text}"' for label, text in labels.items())
    found = re.search(rf"^{name}{{{inside}}} (\S+)$", read_page(answer), re.M)
    return None if found is None else float(found[1])


@pytest.mark.django_db
def test_only_who_knows_the_token_may_read_them(scraped, settings):
    assert scraped.get("/metrics").status_code == 200
    assert Client().get("/metrics").status_code == 403
    assert Client(headers={"Authorization": "Bearer wrong"}).get("/metrics").status_code == 403
    settings.METRICS_TOKEN = ""
    assert scraped.get("/metrics").status_code == 404
    assert Client(headers={"Authorization": "Bearer "}).get("/metrics").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_prometheus_reads_the_lag_and_what_waits(agent, scraped):
    assert metric(scraped, "trimtab_work_lag_seconds", kind="analysis", quantile="1") is None
    assert metric(scraped, "trimtab_work_waiting_seconds", kind="analysis") == 0
    agent.put(agent.segment(0))
    waited(agent, 50)
    assert metric(scraped, "trimtab_work_due", kind="analysis") == 1
    assert 50 <= metric(scraped, "trimtab_work_waiting_seconds", kind="analysis") < 60
    evaluate(agent.run_id)
    for quantile in ("0.5", "0.99", "1"):
        labels = {"kind": "analysis", "quantile": quantile}
        assert 50 <= metric(scraped, "trimtab_work_lag_seconds", **labels) < 66
    assert metric(scraped, "trimtab_work_lag_count", kind="analysis") == 1
    assert metric(scraped, "trimtab_work_due", kind="analysis") == 0
    assert metric(scraped, "trimtab_work_waiting_seconds", kind="analysis") == 0


@pytest.mark.django_db
def test_what_was_given_up_is_told_and_waits_no_more(agent, scraped):
    agent.put(agent.segment(0))
    claims.mark_failed(queue.claim(agent.run_id), "unreadable")
    assert metric(scraped, "trimtab_work_failed", kind="analysis") == 1
    assert metric(scraped, "trimtab_work_waiting_seconds", kind="analysis") == 0


@pytest.mark.django_db
def test_every_kind_has_its_figures_with_help_and_type(scraped):
    lines = read_page(scraped.get("/metrics")).splitlines()
    helped = [line.split()[2] for line in lines if line.startswith("# HELP")]
    assert helped == [line.split()[2] for line in lines if line.startswith("# TYPE")]
    names = {line.split("{")[0].split()[0] for line in lines if not line.startswith("#")}
    assert names <= set(helped)
    assert sum(line.startswith("trimtab_work_due{") for line in lines) == 9


# What lateness changes


@pytest.fixture
def running(agent) -> FakeAgent:
    """Return an agent whose run was analysed as a whole ten seconds ago; it has run for three
    minutes, so it is due again only if the minute that comes now is judged on time.
    """
    agent.run_id = FIRST
    live(agent, WORKS * 3)
    evaluate(agent.run_id)
    agent.put(minute(agent, 3, works=True))
    return agent


def analysed_ago(agent: FakeAgent, seconds: float) -> None:
    Analysis.objects.filter(run=agent.run_id).update(
        finished_at=timezone.now() - timedelta(seconds=seconds), due_at=timezone.now()
    )


def late_run(agent: FakeAgent, seconds: float) -> FakeAgent:
    """Return another run whose upload waits for its turn."""
    other = FakeAgent(agent.client, agent.token, job="late", run_id=uuid4())
    other.put(other.segment(0))
    waited(other, seconds)
    return other


def is_whole(agent: FakeAgent | Run) -> bool:
    held = queue.claim(agent.pk if isinstance(agent, Run) else agent.run_id)
    assert held is not None
    claims.release(held, timezone.now())
    return not held.is_look


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("late_seconds", "ago_seconds", "whole"),
    [(0, 295, False), (0, 305, True), (14, 305, True), (18.5, 305, False), (18.5, 700, True),
     (24, 800, False), (24, 901, True), (9999, 890, False), (9999, 901, True)],
)  # fmt: skip
def test_whole_analyses_are_rarer_while_uploads_are_judged_late(
    running, late_seconds, ago_seconds, whole
):
    late_run(running, late_seconds)
    analysed_ago(running, ago_seconds)
    assert is_whole(running) == whole


@pytest.mark.django_db
@pytest.mark.parametrize(("watched_seconds", "whole"), [(1, True), (90, True), (200, False)])
def test_a_run_whose_page_is_open_is_analysed_more_often(running, watched_seconds, whole):
    """The run is analysed as a whole after 18 s, not after 300."""
    analysed_ago(running, 26)
    assert not is_whole(running)
    run = Run.objects.get(pk=running.run_id)
    queue.watch(run, Analysis.objects.get(run=run))
    watched_at = timezone.now() - timedelta(seconds=watched_seconds)
    Analysis.objects.filter(run=running.run_id).update(watched_at=watched_at)
    assert is_whole(running) == whole


@pytest.mark.django_db
def test_opening_the_page_of_a_quiet_run_makes_its_analysis_due(agent, client, workspace):
    agent.started_at_ns = time.time_ns() - 180 * 10**9
    live(agent, WORKS * 3)
    evaluate(agent.run_id)
    agent.put(minute(agent, 3, works=True))
    before = Analysis.objects.get().due_at
    client.force_login(factories.member(workspace))
    assert client.get(f"/runs/{agent.run_id}/").status_code == 200
    watched = Analysis.objects.get()
    assert watched.due_at < before
    assert client.get(f"/runs/{agent.run_id}/").status_code == 200
    assert Analysis.objects.get().watched_at == watched.watched_at, "at most twice a minute"


@pytest.mark.django_db
def test_a_backlog_that_came_at_once_is_soon_analysed(agent):
    """Only its first minute was there. It is analysed five minutes later, not when it is twice as
    long as it is now."""
    agent.run_id = FIRST
    live(agent, WORKS)
    evaluate(agent.run_id)
    for number in range(1, 12):
        agent.put(minute(agent, number, works=True))
    analysed_ago(agent, 295)
    assert not is_whole(agent)
    analysed_ago(agent, 305)
    assert is_whole(agent)


@pytest.mark.django_db
def test_runs_that_were_analysed_together_come_apart(workspace):
    """The next analyses are due one after the other, each run's at its own time."""
    job, now = factories.job(workspace), timezone.now()
    began = {"started_at": now - timedelta(minutes=9), "ended_at": now}
    runs = [factories.run(job, state=Run.RUNNING, **began) for _ in range(60)]
    Analysis.objects.bulk_create(Analysis(run=run, wanted=1, analysed=SECOND) for run in runs)
    sooner, later = (whole_after(runs, minutes) for minutes in (5.75, 6.75))
    assert sooner < later
    assert 5 < len(sooner) < len(later) - 5 < 50


def whole_after(runs: list[Run], minutes: float) -> set[Run]:
    """Return those of the runs that are analysed again so long after they all were."""
    Analysis.objects.update(finished_at=timezone.now() - timedelta(minutes=minutes))
    return {run for run in runs if is_whole(run)}


@pytest.mark.django_db
def test_it_heals_by_itself(running):
    late = late_run(running, 60)
    analysed_ago(running, 350)
    assert not is_whole(running)
    evaluate(late.run_id)
    assert is_whole(running)


@pytest.mark.django_db
def test_a_run_without_an_analysis_or_at_its_end_is_never_put_off(running, agent):
    first = late_run(running, 600)
    assert is_whole(first)
    running.put(running.segment(4, start_ms=240_000, last=True))
    analysed_ago(running, 1)
    assert is_whole(running)


@pytest.mark.django_db
def test_what_was_declared_only_has_no_analysis_yet(agent):
    agent.declare()
    evaluate(agent.run_id)
    analysis = Analysis.objects.get()
    assert (analysis.finished_at, analysis.done) == (None, analysis.wanted)
    agent.put(agent.segment(0))
    evaluate(agent.run_id)
    assert Analysis.objects.get().finished_at is not None


@pytest.mark.django_db
def test_what_waits_for_a_retry_or_is_under_way_makes_nobody_late(running):
    late = late_run(running, 600)
    Analysis.objects.filter(run=late.run_id).update(attempts=1)
    assert queue.longest_wait(timezone.now()) < 5 * SECOND
    Analysis.objects.filter(run=late.run_id).update(
        attempts=0, leased_until=timezone.now() + 60 * SECOND
    )
    assert queue.longest_wait(timezone.now()) < 5 * SECOND


@pytest.mark.django_db
def test_a_late_service_finds_the_same(agent):
    """The load changes when a run is judged, and nothing that it is judged by."""
    live(agent, WORKS * 5 + RESTS * 11)
    late_run(agent, 600)
    evaluate(agent.run_id)
    late = dict(agent_judgements(agent))
    Analysis.objects.exclude(run=agent.run_id).delete()
    queue.requeue_run(Run.objects.get(pk=agent.run_id))
    evaluate(agent.run_id)
    assert dict(agent_judgements(agent)) == late


def agent_judgements(agent: FakeAgent) -> list[tuple[str, str]]:
    return list(Run.objects.get(pk=agent.run_id).judgements.values_list("rule", "state"))
