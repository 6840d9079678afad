"""A task finds connections to the database that work."""

from __future__ import annotations

import pytest
from celery.signals import task_postrun, task_prerun
from django.db import connections

import webapp.celery  # noqa: F401  (it connects to the signals)


@pytest.mark.parametrize("signal", [task_prerun, task_postrun])
@pytest.mark.django_db(transaction=True)
def test_a_task_never_gets_a_connection_that_is_too_old(signal, monkeypatch) -> None:
    connection = connections["default"]
    connection.ensure_connection()
    closed = []
    # A database in memory is never closed.
    monkeypatch.setattr(connection, "close", lambda: closed.append(connection.alias))
    monkeypatch.setattr(connection, "close_at", None)
    signal.send(sender=None)
    assert closed == []
    monkeypatch.setattr(connection, "close_at", 0.0)
    signal.send(sender=None)
    assert closed == ["default"]
