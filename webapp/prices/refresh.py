"""Refreshes prices and machines part by part, and saves its place after each page.

Rows and the place of the next page are written in one transaction, and only if no other process
continued the part meanwhile. So an interrupted refresh resumes, and two at once do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db import transaction
from django.utils import timezone

from advisor.pricing.providers.provider import Offer, Page, ProviderError, TokenRefusedError
from webapp.prices import sources, writing
from webapp.prices.models import PriceRefresh
from webapp.prices.sources import Part

FRESH = timedelta(hours=20)
"""A part that was finished so recently is not refreshed again."""
GOES_ON = timedelta(days=1)
"""A part that was interrupted longer ago begins again."""
_BULK_PAGE = 500

OnPage = Callable[[PriceRefresh], None]


class RefreshError(Exception):
    """A part can't be refreshed; the message says which and why."""


class OvertakenError(RefreshError):
    """Another process continues this part."""


def is_due(part: Part, now: datetime) -> bool:
    """Whether the part is to be refreshed, from the beginning or from where it was interrupted."""
    state = PriceRefresh.objects.filter(name=part.name).first()
    if state is None or state.finished_at is None or _is_unfinished(state):
        return True
    return state.finished_at < now - FRESH


def refresh(part: Part, on_page: OnPage) -> PriceRefresh:
    """Ask for a part, or for the rest of it.

    Raises:
        RefreshError: the provider refuses, can't be reached, or another process is at it.
    """
    state = _begun(part)
    try:
        try:
            _go_on(part, state, on_page)
        except TokenRefusedError:
            state = _from_the_beginning(state)
            _go_on(part, state, on_page)
    except ProviderError as error:
        PriceRefresh.objects.filter(pk=state.pk).update(error=str(error)[:1000])
        raise RefreshError(f"{part.name}: {error}") from error
    return _finished(part, state)


def write_bulk(name: str, offers: Iterable[Offer], on_page: OnPage) -> PriceRefresh:
    """Prices that were read from a bulk file called `name`."""
    state, _ = PriceRefresh.objects.get_or_create(name=name[:64])
    state = _from_the_beginning(state)
    rest = iter(offers)
    while items := tuple(islice(rest, _BULK_PAGE)):
        _write(Part("bulk", name), state, Page(items, ""), on_page)
    return _finished(Part("bulk", name), state)


def _is_unfinished(state: PriceRefresh) -> bool:
    if state.started_at is None:
        return False
    return state.finished_at is None or state.started_at > state.finished_at


def _begun(part: Part) -> PriceRefresh:
    state, _ = PriceRefresh.objects.get_or_create(name=part.name)
    begun = state.started_at
    if _is_unfinished(state) and begun is not None and begun > timezone.now() - GOES_ON:
        return state
    return _from_the_beginning(state)


def _from_the_beginning(state: PriceRefresh) -> PriceRefresh:
    state.token, state.pages, state.rows_read, state.rows_new = "", 0, 0, 0
    state.started_at, state.error = timezone.now(), ""
    state.save()
    return state


def _go_on(part: Part, state: PriceRefresh, on_page: OnPage) -> None:
    started_at = state.started_at or timezone.now()
    if state.pages and not state.token:
        return
    for page in sources.pages_of(part, state.token, started_at, state.finished_at):
        _write(part, state, page, on_page)


def _write(part: Part, state: PriceRefresh, page: Page[Any], on_page: OnPage) -> None:
    now = timezone.now()
    ours = PriceRefresh.objects.filter(pk=state.pk, started_at=state.started_at, pages=state.pages)
    with transaction.atomic():
        state.rows_new += _save(part, page.items, now)
        state.rows_read += len(page.items)
        state.token, state.pages = page.next_token, state.pages + 1
        progress = ("token", "pages", "rows_read", "rows_new")
        if ours.update(**{name: getattr(state, name) for name in progress}, error="") != 1:
            raise OvertakenError(f"{part.name}: another refresh is running")
    on_page(state)


def _save(part: Part, items: Any, now: datetime) -> int:
    if part.kind == "machines":
        return writing.write_machines(items, part.provider, part.region, now)
    if part.kind == "spot":
        return writing.write_spot(items, now)
    return writing.write_offers(items, now)


def _finished(part: Part, state: PriceRefresh) -> PriceRefresh:
    now = timezone.now()
    if part.kind == "machines" and state.started_at is not None:
        writing.mark_gone(part.provider, part.region, state.started_at, now)
    state.finished_at = now
    state.save(update_fields=["finished_at"])
    return state
