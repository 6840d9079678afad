"""The service: HTTP in, pages and JSON out, rows, Celery. The only place that imports Django."""

__version__ = "0.1.0"
