"""The price refresh: what is due each day, and the work on each part."""

from __future__ import annotations

import logging

from celery import shared_task
from django.utils import timezone

from webapp.background import claims, waking
from webapp.prices import refresh as refreshing
from webapp.prices import sources
from webapp.prices.models import PriceRefresh

logger = logging.getLogger(__name__)


@shared_task(name="prices.refresh")
def refresh() -> None:
    """Queue the parts that are due, of providers with credentials."""
    askable = sources.askable()
    if askable:
        refreshing.want_due(sources.parts(askable), timezone.now())
        waking.wake()


def refresh_part(name: str, **which: object) -> bool:
    """Refresh one part if it is due. Without credentials it waits for another day."""
    held = claims.claim(refreshing.KIND, name, **which)
    if held is None:
        return False
    if not sources.askable():
        claims.release(held, timezone.now() + refreshing.FRESH)
        return True
    try:
        refreshing.refresh_claimed_part(held, _log_page)
    except refreshing.RefreshError as error:
        extra = {"part": held.row.name, "error": str(error)}
        logger.warning("price refresh failed", extra=extra)
    except Exception:
        logger.exception("price refresh failed", extra={"part": held.row.name})
    return True


def _log_page(state: PriceRefresh) -> None:
    logger.debug("prices", extra={"part": state.name, "rows": state.rows_read})
