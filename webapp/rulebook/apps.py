from django.apps import AppConfig


class RulebookConfig(AppConfig):
    name = "webapp.rulebook"
    label = "rulebook"
