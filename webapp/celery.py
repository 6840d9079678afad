"""The Celery application. Its settings are in `webapp.settings`, prefixed `CELERY_`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

app = Celery("trimtab")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
