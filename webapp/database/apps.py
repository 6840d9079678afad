from django.apps import AppConfig


class DatabaseConfig(AppConfig):
    """The app's configuration, by which Celery finds its tasks."""

    name = "webapp.database"
    label = "database"
