"""The service inside a benchmark's process: its own SQLite database, in a temporary folder."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

ELSEWHERE = ("DATABASE_URL", "OBJECTS_URL")
"""Settings that would lead out of the folder."""


@contextmanager
def own_service(name: str, database_url: str = "") -> Iterator[None]:
    """Set up Django with an empty, migrated database, and static files that need no build.

    Args:
        database_url: that of an empty database; default: an SQLite file in the folder.
    """
    with tempfile.TemporaryDirectory(prefix=f"trimtab-{name}-") as folder:
        os.environ["TRIMTAB_DATA_DIR"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
        for setting in ELSEWHERE:
            os.environ.pop(setting, None)
        if database_url:
            os.environ["DATABASE_URL"] = database_url
        _set_up()
        yield


def _set_up() -> None:
    import django
    from django.conf import settings
    from django.core.management import call_command

    django.setup()
    logging.disable(logging.WARNING)
    plain = "django.contrib.staticfiles.storage.StaticFilesStorage"
    settings.STORAGES["staticfiles"]["BACKEND"] = plain
    settings.STATIC_ROOT.mkdir()
    call_command("migrate", verbosity=0)
