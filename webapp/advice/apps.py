from django.apps import AppConfig


class AdviceConfig(AppConfig):
    name = "webapp.advice"
    label = "advice"
