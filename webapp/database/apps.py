from django.apps import AppConfig


class DatabaseConfig(AppConfig):
    """Installed so that Celery finds its tasks; it has no rows of its own."""

    name = "webapp.database"
