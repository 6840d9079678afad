from django.apps import AppConfig


class NotifyConfig(AppConfig):
    name = "webapp.notify"
    label = "notify"

    def ready(self) -> None:
        from webapp.notify import checks  # noqa: F401 - registers the system checks
