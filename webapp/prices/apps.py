from django.apps import AppConfig
from django.db.models.signals import post_migrate


class PricesConfig(AppConfig):
    name = "webapp.prices"
    label = "prices"

    def ready(self) -> None:
        from webapp.background.kinds import register
        from webapp.prices.bundled import sync_bundled
        from webapp.prices.refresh import KIND

        register(KIND)
        post_migrate.connect(sync_bundled, sender=self)
