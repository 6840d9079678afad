"""The service: HTTP in, pages and JSON out, rows, Celery. The only place that imports Django."""

from webapp.celery import app as celery_app

__version__ = "0.1.0"
__all__ = ["celery_app"]
