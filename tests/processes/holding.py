"""The real web server, with further pages that hold the interpreter or only take long.

`python -m tests.processes.holding --bind ADDRESS`
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":
    from django.conf import settings

    from webapp.web_server.__main__ import main

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    settings.ROOT_URLCONF = "tests.processes.holding"
    sys.exit(main())

from django.http import HttpRequest, HttpResponse
from django.urls import path

from webapp import urls
from webapp.accounts.access import open_to_everybody

SLEPT_SECONDS, COMPUTED_SECONDS = 8, 2
HELD_FOREVER = "a" * 40 + "b"


def backtrack_forever() -> object:
    return re.match(r"(a+)+$", HELD_FOREVER)


def sleep_with_the_interpreter() -> object:
    return ctypes.PyDLL(None).sleep(600)


def sleep_without_the_interpreter() -> object:
    time.sleep(SLEPT_SECONDS)
    return None


def compute_without_the_interpreter() -> object:
    """Return once this thread has used so much CPU time."""
    until = time.thread_time() + COMPUTED_SECONDS
    while time.thread_time() < until:
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 200_000)
    return None


def loop_in_python() -> object:
    until = time.thread_time() + COMPUTED_SECONDS
    while time.thread_time() < until:
        pass
    return None


def _page(work: Callable[[], object]) -> Any:
    @open_to_everybody
    def view(_request: HttpRequest) -> HttpResponse:
        work()
        return HttpResponse(f"{os.getpid()}")

    return path(f"{work.__name__}/", view)


urlpatterns = [
    *urls.urlpatterns,
    *map(
        _page,
        (
            backtrack_forever,
            sleep_with_the_interpreter,
            sleep_without_the_interpreter,
            compute_without_the_interpreter,
            loop_in_python,
        ),
    ),
]
