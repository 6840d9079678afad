"""Celery for Django, except that tasks keep their connections to the database as requests do.

Celery closes them before and after each task, and its own setting against that keeps them even when
they are broken. To open one takes as long as a small task.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from celery import Celery
from celery.fixups.django import DjangoFixup, DjangoWorkerFixup
from django.db import close_old_connections

INSTALLED = "webapp.service.connections:installed"
"""The entry for Celery's `fixups`."""


class _KeepsConnections(DjangoWorkerFixup):  # type: ignore[misc]
    def close_database(self, **_: Any) -> None:
        """Close connections that are broken or older than `CONN_MAX_AGE`."""
        close_old_connections()


class _Fixup(DjangoFixup):  # type: ignore[misc]
    @cached_property
    def worker_fixup(self) -> DjangoWorkerFixup:
        return _KeepsConnections(self.app)


def installed(app: Celery) -> DjangoFixup:
    return _Fixup(app).install()
