from django.apps import AppConfig


class SpendConfig(AppConfig):
    name = "webapp.spend"
    label = "spend"
