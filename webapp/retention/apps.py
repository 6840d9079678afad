from django.apps import AppConfig


class RetentionConfig(AppConfig):
    name = "webapp.retention"
    label = "retention"

    def ready(self) -> None:
        from webapp.background.kinds import register
        from webapp.retention.rounds import KIND

        register(KIND)
