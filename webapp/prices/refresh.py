"""Refreshes prices and machines part by part, and saves its place after each page.

Each part is background work. Rows and the position of the next page are written in one transaction,
and only while the lease is held. So an interrupted refresh resumes, and concurrent ones do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from advisor.pricing.providers.provider import Offer, PricePage, ProviderError, TokenRefusedError
from webapp.background import claims, conditions
from webapp.background.kinds import WorkKind, WorkLimits
from webapp.prices import sources, writing
from webapp.prices.models import PriceRefresh
from webapp.prices.sources import SourceRegion

FRESH = timedelta(hours=20)
"""The time for which a refreshed part is skipped."""
GOES_ON = timedelta(days=1)
"""The time after which an interrupted part restarts instead of continuing."""
ASKED_BY_HAND = timedelta(minutes=2)
"""The time for which workers leave a part alone that a person is about to refresh."""
_BULK_PAGE = 500
_PROGRESS = ("token", "pages", "rows_read", "rows_new")
KIND = WorkKind(
    id="prices",
    title="Price refresh",
    model=PriceRefresh,
    work="webapp.prices.tasks.refresh_part",
    key="name",
    limits=WorkLimits(
        # The lease is renewed with each page.
        lease=timedelta(minutes=2),
        max_attempts=5,
        first_pause=timedelta(minutes=10),
        longest_pause=timedelta(hours=3),
        # Providers slow down who asks for much at a time.
        at_once=1,
    ),
    workspace=None,
    subject=lambda refresh: refresh.name,
    address=lambda _: reverse("prices:prices"),
    # A refresh uses the operator's credentials, so only the operator may retry it: `manage.py
    # refresh_prices`.
    may_be_tried_again=False,
)

Refresh = claims.WorkClaim[PriceRefresh]
OnPage = Callable[[PriceRefresh], None]


class RefreshError(Exception):
    """A part can't be refreshed. The message says which and why."""


class OvertakenError(RefreshError):
    """Another process continues this part."""


def is_due(part: SourceRegion, now: datetime) -> bool:
    """Return whether to refresh the part, from the beginning or from where it was interrupted."""
    row = PriceRefresh.objects.filter(name=part.name).first()
    if row is None or row.finished_at is None or _is_unfinished(row):
        return True
    return row.finished_at < now - FRESH


def _is_unfinished(row: PriceRefresh) -> bool:
    if row.started_at is None:
        return False
    return row.finished_at is None or row.started_at > row.finished_at


def want_due(parts: Iterable[SourceRegion], now: datetime) -> None:
    """Queue each part to refresh. Parts already queued are left unchanged."""
    rows = [PriceRefresh(name=part.name) for part in parts if is_due(part, now)]
    PriceRefresh.objects.bulk_create(rows, ignore_conflicts=True)
    _want(PriceRefresh.objects.filter(name__in=[row.name for row in rows]), now)


def _want(rows: QuerySet[PriceRefresh], due_at: datetime) -> None:
    claims.mark_due(rows.exclude(conditions.is_open()), due_at)


def refresh(part: SourceRegion, on_page: OnPage) -> PriceRefresh:
    """Refresh a part, or the rest of it, now, even if another process is working on it.

    Raises:
        RefreshError: the provider refuses or can't be reached, or another process took the part
            over.
    """
    return refresh_claimed_part(_claimed(part.name), on_page)


def refresh_claimed_part(held: Refresh, on_page: OnPage) -> PriceRefresh:
    """Refresh a claimed part.

    Raises:
        RefreshError: the provider refuses or can't be reached, or another process took the part
            over because the refresh took too long.
    """
    part = SourceRegion.from_name(held.row.name)
    try:
        _go_on(part, held, on_page)
    except ProviderError as error:
        claims.fail(held, str(error))
        raise RefreshError(f"{part.name}: {error}") from error
    except Exception as error:
        claims.fail(held, error)
        raise
    except BaseException:
        # The part may be resumed at once after the caller interrupted it.
        claims.release(held, timezone.now())
        raise
    return _finished(part, held)


def write_bulk(name: str, offers: Iterable[Offer], on_page: OnPage) -> PriceRefresh:
    """Save prices from the bulk file `name`. Not background work, since only the caller has the
    file."""
    row, _ = PriceRefresh.objects.get_or_create(name=name[:64])
    _from_the_beginning(row)
    rest = iter(offers)
    while items := tuple(islice(rest, _BULK_PAGE)):
        with transaction.atomic():
            _add(SourceRegion("bulk", name), row, PricePage(items, ""))
            row.save(update_fields=_PROGRESS)
        on_page(row)
    row.finished_at = timezone.now()
    row.save(update_fields=["finished_at"])
    return row


def _claimed(name: str) -> Refresh:
    row, _ = PriceRefresh.objects.get_or_create(name=name)
    _want(PriceRefresh.objects.filter(pk=row.pk), timezone.now() + ASKED_BY_HAND)
    held = claims.claim_by_force(KIND, name)
    if held is None:
        raise OvertakenError(f"{name}: another refresh is running")
    return held


def _go_on(part: SourceRegion, held: Refresh, on_page: OnPage) -> None:
    begun = held.row.started_at
    if not _is_unfinished(held.row) or begun is None or begun <= held.began_at - GOES_ON:
        _from_the_beginning(held.row)
    try:
        _ask(part, held, on_page)
    except TokenRefusedError:
        _from_the_beginning(held.row)
        _ask(part, held, on_page)


def _from_the_beginning(row: PriceRefresh) -> None:
    row.token, row.pages, row.rows_read, row.rows_new = "", 0, 0, 0
    row.started_at, row.error = timezone.now(), ""
    row.save(update_fields=[*_PROGRESS, "started_at", "error"])


def _ask(part: SourceRegion, held: Refresh, on_page: OnPage) -> None:
    row = held.row
    if row.pages and not row.token:
        return
    for page in sources.pages_of(part, row.token, row.started_at or held.began_at, row.finished_at):
        with transaction.atomic():
            _add(part, row, page)
            progress = {name: getattr(row, name) for name in _PROGRESS}
            if not claims.renew(held, error="", **progress):
                raise OvertakenError(f"{part.name}: another refresh is running")
        on_page(row)


def _add(part: SourceRegion, row: PriceRefresh, page: PricePage[Any]) -> None:
    """Save a page's rows and count them."""
    row.rows_new += _save(part, page.items, timezone.now())
    row.rows_read += len(page.items)
    row.token, row.pages = page.next_token, row.pages + 1


def _save(part: SourceRegion, items: Any, now: datetime) -> int:
    if part.kind == "machines":
        return writing.write_machines(items, part.provider, part.region, now)
    if part.kind == "spot":
        return writing.write_spot(items, now)
    return writing.write_offers(items, now)


def _finished(part: SourceRegion, held: Refresh) -> PriceRefresh:
    def mark_gone() -> None:
        if part.kind == "machines" and held.row.started_at is not None:
            writing.mark_gone(part.provider, part.region, held.row.started_at, timezone.now())

    claims.finish_work(held, mark_gone)
    return held.row
