from django.apps import AppConfig


class DirectivesConfig(AppConfig):
    name = "webapp.directives"
    label = "directives"
