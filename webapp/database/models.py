"""Records which code prepared the database."""

from __future__ import annotations

from django.db import models


class Preparation(models.Model):
    """One row: which code brought this database up to date, and what it had then.

    `webapp.management.preparation` reads it before apps are loaded. It is a row, not a file beside
    the data, so that it always belongs to the rows around it.
    """

    ONLY = 1
    mark = models.CharField(max_length=64)

    def __str__(self) -> str:
        return self.mark
