"""The price refresh as a Celery task. What one task doesn't finish, the next continues."""

from __future__ import annotations

import logging
import time

from celery import shared_task
from django.utils import timezone

from webapp.prices import refresh as refreshing
from webapp.prices import sources
from webapp.prices.models import PriceRefresh

LONGEST_SECONDS = 300
"""Of one task, well below the limit at which Celery stops it."""

logger = logging.getLogger(__name__)


@shared_task(name="prices.refresh")
def refresh() -> None:
    """Refresh what is due, from the providers for which there are credentials."""
    began = time.monotonic()
    for part in sources.parts(sources.askable()):
        if time.monotonic() - began > LONGEST_SECONDS:
            refresh.apply_async(queue="maintain")
            return
        if refreshing.is_due(part, timezone.now()):
            _one(part)


def _one(part: sources.Part) -> None:
    try:
        refreshing.refresh(part, _told)
    except refreshing.RefreshError as error:
        logger.warning("price refresh failed", extra={"part": part.name, "error": str(error)})


def _told(state: PriceRefresh) -> None:
    logger.debug("prices", extra={"part": state.name, "rows": state.rows_read})
