"""The page about background work, as owners see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.service.claiming import claim_next
from tests.web import factories
from webapp.analysis import queue
from webapp.analysis.models import Compaction
from webapp.background import lag
from webapp.http import redis_outage
from webapp.notify.models import Mail, PasswordReset
from webapp.notify.queue import KIND as MAIL
from webapp.prices.models import PriceRefresh
from webapp.retention.models import RetentionRound
from webapp.rulebook.models import Rejudging

PAGE = "/settings/background/"
MOST_QUERIES = 22


def failed(**more: Any) -> dict[str, Any]:
    values = {"done": 0, "attempts": 3, "error": "OSError: the store is away"}
    return values | {"given_up_at": timezone.now()} | more


def mail(person: Any, number: int = 0, **more: Any) -> Mail:
    key = f"{person.user.pk}-{number}"
    return Mail.objects.create(
        user=person.user,
        workspace=person.workspace,
        kind="budget",
        subject_key=key,
        message_id=key,
        about="Vision: over the budget",
        **more,
    )


def text(page: str) -> str:
    body = page.split('id="background-title"')[1].split("</section>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_without_work_it_says_what_will_be_here(owner):
    assert "No work is waiting" in text(owner.page(PAGE))


def test_it_shows_each_piece_of_work_with_its_state(owner):
    now = timezone.now()
    job = factories.job(owner.workspace)
    runs = [factories.run(job) for _ in range(4)]
    factories.analysis(runs[0], **failed())
    factories.analysis(runs[1], done=0, attempts=1, error="ValueError: odd <b>frame</b>")
    leased = {"lease": "0" * 32, "leased_until": now + timedelta(minutes=1), "began_at": now}
    factories.analysis(runs[2], done=0, **leased)
    factories.analysis(runs[3], finished_at=now, seconds=2.5)
    mail(owner, due_at=now + timedelta(minutes=8))

    page = owner.page(PAGE)

    rows = re.findall(r"<tr>(.*?)</tr>", page.split('id="background-title"')[1], re.S)[1:]
    states = [re.search(r'class="badge[^>]*>([^<]+)<', row)[1] for row in rows]
    assert states == ["Failed", "Under way", "Waiting for retry", "Due", "Done"]
    assert f'href="/runs/{runs[0].pk}/"' in rows[0]
    assert "OSError: the store is away" in rows[0]
    assert ">3 of 3<" in rows[0]
    assert "odd &lt;b&gt;frame&lt;/b&gt;" in rows[2]
    assert ">Now<" in rows[2]
    assert "Vision: over the budget (to ada@example.org)" in rows[3]
    assert "in 7" in rows[3] or "in 8" in rows[3]
    assert "took 2.50 s" in rows[4]
    assert [("Try again" in row) for row in rows] == [True, False, False, False, False]


def test_workers_that_died_are_counted_apart(owner):
    factories.analysis(factories.run(factories.job(owner.workspace)), done=0, kills=2)

    assert "0 of 3 2 workers died" in text(owner.page(PAGE))


def test_work_whose_only_worker_died_waits_for_a_retry(owner):
    factories.analysis(factories.run(factories.job(owner.workspace)), done=0, kills=1)

    assert "Waiting for retry" in owner.page(PAGE + "?state=retry").split("</form>")[-1]


def test_who_asked_for_a_new_password_is_not_shown_to_owners(owner):
    PasswordReset.objects.create(email="ada@example.org")

    for query in ("", "?kind=password_reset", "?state=due"):
        assert "Password reset" not in owner.page(PAGE + query)
    assert "No background work matches" in owner.page(PAGE + "?kind=password_reset")


@pytest.mark.parametrize(
    ("query", "has_run", "has_mail"),
    [
        ("", True, True),
        ("?state=failed", True, False),
        ("?kind=mail", False, True),
        ("?state=failed&kind=mail", False, False),
        ("?state=nonsense&kind=nonsense&page=nonsense", True, True),
    ],
)
def test_it_filters_by_state_and_kind(owner, query, has_run, has_mail):
    run = factories.run(factories.job(owner.workspace))
    factories.analysis(run, **failed())
    mail(owner)

    page = owner.page(PAGE + query)

    assert (f"/runs/{run.pk}/" in page) == has_run
    assert ("Vision: over the budget" in page) == has_mail
    assert ("No background work matches" in page) == (not has_run and not has_mail)


def lag_row(page: str) -> str:
    row = page.split("From upload to judged")[1].split("</tr>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", row).split())


@pytest.fixture
def no_lags() -> Iterator[None]:
    """Forget all that was done lately."""
    redis = redis_outage.client(settings.REDIS_URL)

    def forget() -> None:
        for key in redis.scan_iter(f"{settings.CACHES['default']['KEY_PREFIX']}:lag:*"):
            redis.delete(key)

    forget()
    yield
    forget()


def test_it_shows_how_soon_uploads_are_judged(owner, stranger, no_lags):
    assert lag_row(owner.page(PAGE)) == "None in the last 10 minutes – – – Nothing"
    for seconds in [2] * 98 + [20, 40]:
        lag.count(queue.KIND, timedelta(seconds=seconds))
    since = timezone.now() - timedelta(seconds=90)
    factories.analysis(factories.run(factories.job(owner.workspace)), done=0, waiting_since=since)
    shown = re.fullmatch(
        r"100 in the last 10 minutes, all workspaces ([\d.]+) s (\d+) s (\d+) s 1 m (\d+) s",
        lag_row(owner.page(PAGE)),
    )
    assert shown is not None, lag_row(owner.page(PAGE))
    for figure, exact in zip(shown.groups(), (2, 20, 40), strict=False):
        assert exact <= float(figure) + 0.5
        assert float(figure) <= 1.1 * exact + 0.5
    assert int(shown[4]) >= 30
    assert lag_row(stranger.page(PAGE)).endswith("Nothing"), "what waits is their own"


def test_work_that_was_done_long_ago_is_gone(owner):
    job = factories.job(owner.workspace)
    old = factories.run(job)
    factories.analysis(old, finished_at=timezone.now() - timedelta(hours=25))

    assert str(old.pk) not in owner.page(PAGE)


def test_another_workspaces_work_is_neither_seen_nor_tried_again(owner, stranger):
    run = factories.run(factories.job(stranger.workspace))
    theirs = factories.analysis(run, **failed())

    assert str(run.pk) not in owner.page(PAGE)
    answer = owner.client.post(f"{PAGE}try-again/", {"kind": "analysis", "row": theirs.pk})

    assert "has not failed" in owner.page(answer["Location"])
    theirs.refresh_from_db()
    assert theirs.given_up_at is not None


def test_the_work_of_a_deleted_run_is_not_shown(owner):
    run = factories.run(factories.job(owner.workspace), deleted_at=timezone.now())
    factories.analysis(run, **failed())

    assert str(run.pk) not in owner.page(PAGE)


def test_failed_work_is_tried_again_and_the_filter_stays(owner):
    letter = mail(owner, state=Mail.FAILED, **failed())
    query = "?state=failed&kind=mail"
    page = owner.page(PAGE + query)
    action = re.search(r'action="([^"]+try-again[^"]*)"', page)[1].replace("&amp;", "&")

    answer = owner.client.post(action, {"kind": "mail", "row": letter.pk})

    assert answer["Location"] == PAGE + query
    assert "will be tried again" in owner.page(answer["Location"])
    letter.refresh_from_db()
    assert (letter.state, letter.attempts, letter.error) == (Mail.WAITING, 0, "")
    assert claim_next(MAIL) is not None


@pytest.mark.parametrize("form", [{}, {"kind": "mail"}, {"kind": "mail", "row": "9" * 40}])
def test_a_form_that_names_no_failed_work_changes_nothing(owner, form):
    answer = owner.client.post(f"{PAGE}try-again/", form)

    assert "no longer exists" in owner.page(answer["Location"])


def test_a_price_refresh_is_not_tried_again_from_here(owner):
    row = PriceRefresh.objects.create(name="ec2/us-east-1", wanted=1, **failed())
    assert "for all workspaces" in text(owner.page(PAGE))
    owner.client.post(f"{PAGE}try-again/", {"kind": "prices", "row": row.pk})
    row.refresh_from_db()
    assert row.given_up_at is not None


def test_it_is_paged_and_asks_the_database_as_often_for_much_as_for_little(owner):
    job = factories.job(owner.workspace)

    def one_of_each(number: int) -> None:
        run = factories.run(job)
        factories.analysis(run, done=0)
        Compaction.objects.create(node=factories.node(run), wanted=1)
        mail(owner, number)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            owner.page(PAGE)
        return len(captured)

    Rejudging.objects.create(workspace=owner.workspace, wanted=1)
    RetentionRound.objects.create(workspace=owner.workspace, wanted=1)
    one_of_each(0)
    few = queries()
    for number in range(1, 30):
        one_of_each(number)
    for rare in (Rejudging, RetentionRound):
        # So that each kind is on the first page, as before.
        rare.objects.update(due_at=timezone.now())

    assert queries() == few <= MOST_QUERIES
    assert "1 to 50 of 92" in text(owner.page(PAGE))
    assert "51 to 92 of 92" in text(owner.page(f"{PAGE}?page=2"))
