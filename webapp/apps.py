from django.apps import AppConfig


class WebappConfig(AppConfig):
    name = "webapp"
    label = "webapp"

    def ready(self) -> None:
        from webapp import checks  # noqa: F401 - registers the system checks
