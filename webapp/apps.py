import os
from typing import Any

from django.apps import AppConfig

from webapp.service.signals import web_starts
from webapp.service.supervise import ANNOUNCEMENT_VARIABLE


class WebappConfig(AppConfig):
    name = "webapp"
    label = "webapp"

    def ready(self) -> None:
        # The import isn't in `webapp/__init__.py`: beat and the supervisor need no task of ours.
        from webapp import (
            celery,  # noqa: F401 - the application that tasks are sent by
            checks,  # noqa: F401 - registers the system checks
        )

        web_starts.connect(_announce, weak=False)


def _announce(**_: Any) -> None:
    """Send the announcement to the supervisor, if it asks this web server for what it prints."""
    if descriptor := os.environ.pop(ANNOUNCEMENT_VARIABLE, None):
        from webapp.management.announcement import announce

        announce(int(descriptor))
