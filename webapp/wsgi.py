"""The WSGI application that `webapp.web_server` serves."""

import gc
import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

application = get_wsgi_application()
# Otherwise the first request loads all pages.
get_resolver().url_patterns  # noqa: B018
# Everything that is loaded by now stays, so the collector needn't look at it.
gc.freeze()
