from django.apps import AppConfig


class ThresholdsConfig(AppConfig):
    name = "webapp.thresholds"
    label = "thresholds"
