"""The price refresh as a Celery task. What one task doesn't finish, the next continues."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from celery import shared_task
from django.utils import timezone

from webapp.background import claims
from webapp.prices import refresh as refreshing
from webapp.prices import sources
from webapp.prices.models import PriceRefresh

logger = logging.getLogger(__name__)


@shared_task(name=refreshing.KIND.task)
def refresh(waiting: Sequence[str] = ()) -> None:
    """Refresh the parts that are due, from providers with credentials.

    Args:
        waiting: parts that are still due, to refresh without looking for others; empty: all due
            parts, once a day.
    """
    askable = sources.askable()
    if not askable:
        return
    if not waiting:
        refreshing.want_due(sources.parts(askable), timezone.now())
    until = time.monotonic() + refreshing.LONGEST_SECONDS
    while time.monotonic() < until and (held := claims.claim_next(refreshing.KIND)):
        _one(held)


def _one(held: refreshing.Refresh) -> None:
    try:
        refreshing.carry_out(held, _log_page)
    except refreshing.RefreshError as error:
        extra = {"part": held.row.name, "error": str(error)}
        logger.warning("price refresh failed", extra=extra)
    except Exception:
        logger.exception("price refresh failed", extra={"part": held.row.name})


def _log_page(state: PriceRefresh) -> None:
    logger.debug("prices", extra={"part": state.name, "rows": state.rows_read})
