"""Celery's tasks of accounts."""

from __future__ import annotations

from celery import shared_task
from django.contrib.sessions.backends.db import SessionStore


@shared_task(name="accounts.forget_expired_sessions")
def forget_expired_sessions() -> None:
    """Delete expired sessions, with the addresses and devices that they were used from."""
    SessionStore.clear_expired()
