from django.apps import AppConfig


class WebappConfig(AppConfig):
    name = "webapp"
    label = "webapp"

    def ready(self) -> None:
        # Not in `webapp/__init__.py`: beat and the supervisor need no task of ours.
        from webapp import (
            celery,  # noqa: F401 - the application that tasks are sent by
            checks,  # noqa: F401 - registers the system checks
        )
