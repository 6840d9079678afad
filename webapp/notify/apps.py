from django.apps import AppConfig


class NotifyConfig(AppConfig):
    name = "webapp.notify"
    label = "notify"

    def ready(self) -> None:
        from webapp.background.kinds import register
        from webapp.notify import checks  # noqa: F401 - registers the system checks
        from webapp.notify.queue import KIND

        register(KIND)
