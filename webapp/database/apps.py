from django.apps import AppConfig


class DatabaseConfig(AppConfig):
    """Celery finds its tasks here."""

    name = "webapp.database"
    label = "database"
