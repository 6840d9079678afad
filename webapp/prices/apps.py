from django.apps import AppConfig


class PricesConfig(AppConfig):
    name = "webapp.prices"
    label = "prices"
