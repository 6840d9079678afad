"""Finds the browser libraries that npm installed, as static files under `vendor/`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.utils import matches_patterns
from django.core.files.storage import FileSystemStorage

# Each with its source map where the package ships one: the hashed-name storage rewrites the
# reference to it, and stops at a reference that leads nowhere.
FILES = {
    "vendor/chart.umd.min.js": "chart.js/dist/chart.umd.min.js",
    "vendor/chart.umd.min.js.map": "chart.js/dist/chart.umd.min.js.map",
    "vendor/chartjs-plugin-annotation.min.js": (
        "chartjs-plugin-annotation/dist/chartjs-plugin-annotation.min.js"
    ),
    "vendor/hammer.min.js": "hammerjs/hammer.min.js",
    "vendor/hammer.min.js.map": "hammerjs/hammer.min.js.map",
    "vendor/hammer.min.map": "hammerjs/hammer.min.map",
    "vendor/chartjs-plugin-zoom.min.js": "chartjs-plugin-zoom/dist/chartjs-plugin-zoom.min.js",
    "vendor/htmx.min.js": "htmx.org/dist/htmx.min.js",
    "vendor/htmx.min.js.map": "htmx.org/dist/htmx.min.js.map",
}


class _Renamed(FileSystemStorage):
    """Storage of `node_modules`, seen through the names above."""

    def path(self, name: str) -> str:
        return super().path(FILES[name])


class BrowserLibrariesFinder(BaseFinder):
    def __init__(self, app_names: Any = None, *args: Any, **kwargs: Any) -> None:
        self.storage = _Renamed(location=settings.BASE_DIR / "node_modules")
        super().__init__(*args, **kwargs)

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path not in FILES or not self.storage.exists(path):
            return []
        location = self.storage.path(path)
        return [location] if find_all else location

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[Any]:
        for name in FILES:
            if self.storage.exists(name) and not matches_patterns(name, ignore_patterns or []):
                yield name, self.storage
