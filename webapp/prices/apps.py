from django.apps import AppConfig
from django.db.models.signals import post_migrate


class PricesConfig(AppConfig):
    name = "webapp.prices"
    label = "prices"

    def ready(self) -> None:
        from webapp.prices.bundled import sync_bundled

        post_migrate.connect(sync_bundled, sender=self)
