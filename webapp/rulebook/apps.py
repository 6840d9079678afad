from django.apps import AppConfig


class RulebookConfig(AppConfig):
    name = "webapp.rulebook"
    label = "rulebook"

    def ready(self) -> None:
        from webapp.background.kinds import register
        from webapp.rulebook.rejudging import KIND

        register(KIND)
