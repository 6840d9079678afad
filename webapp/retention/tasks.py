"""The daily round through all workspaces."""

from __future__ import annotations

import logging

from celery import shared_task
from django.core.cache import cache
from django.utils import timezone

from webapp.retention import carrying_out

MOST_SECONDS = 3600
logger = logging.getLogger(__name__)


@shared_task(name="retention.carry_out", time_limit=MOST_SECONDS, soft_time_limit=3500)
def carry_out() -> None:
    """Delete what is past its time everywhere. One at a time; an interrupted one goes on next."""
    if not cache.add("retention", "1", timeout=MOST_SECONDS):
        return
    try:
        gone = carrying_out.everything(timezone.now())
    finally:
        cache.delete("retention")
    logger.info("retention", extra={"deleted": len(gone)})
