from django.apps import AppConfig


class BackgroundConfig(AppConfig):
    name = "webapp.background"
    label = "background"
