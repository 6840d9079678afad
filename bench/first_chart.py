"""Measures how long a person waits for the first chart of a long run's page, in a real browser.

    python -m bench.first_chart              1,000 jobs of 20 runs; takes some minutes
    python -m bench.first_chart --jobs 100   fewer of them
    python -m bench.first_chart --check      exits with 1 if it takes too long

The run is of 8 GPUs, 24 h long, with a sample every 0.5 s, in a workspace of many others. Chromium
opens its page, without anything cached, from the service's own web server. The time is from the
navigation to the first chart with a line in it, on the clock of the browser; it includes the
browser's own work and needs an idle machine.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from bench.busy_workspace import BusyWorkspace
from bench.figures import note
from bench.own_service import own_service
from tests.running_service import free_port, wait_until

CHROMIUM = "/usr/bin/chromium"
MOST_SECONDS, TIMES = 1.0, 7
START_SECONDS = 60.0
PREPARE = """
from webapp.management.preparation import prepare_static_files
prepare_static_files()
"""
WATCH = """
window.firstChart = new Promise((resolve) => {
  const hasLine = (chart) => chart.data.datasets.some((line) => line.data.length);
  const look = () => {
    const isDrawn = Object.values(window.Chart?.instances ?? {}).some(hasLine);
    requestAnimationFrame(isDrawn ? () => resolve(performance.now()) : look);
  };
  look();
});
"""
"""Resolves to the milliseconds since the navigation, once the first chart is drawn."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=20, help="of each job")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    # Playwright's loop runs in this thread; Django must not take that for asynchronous code.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with own_service("first-chart"):
        seconds = first_charts(BusyWorkspace(arguments.jobs, arguments.runs))
    median = statistics.median(seconds)
    measured = f"{1000 * median:.0f} ms (slowest of {len(seconds)}: {1000 * max(seconds):.0f} ms)"
    is_kept = median < MOST_SECONDS
    note("first_chart", measured, is_kept)
    print(f"first chart after {measured}{'' if is_kept else '  NOT KEPT'}")
    return 1 if arguments.check and not is_kept else 0


def first_charts(busy: BusyWorkspace) -> list[float]:
    """Return the seconds of some visits, without the first, which warms the service up."""
    with _served() as base_url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cookie = _cookie(busy) | {"url": base_url}
        address = f"{base_url}/runs/{busy.long_run.pk}/"
        seconds = [_visit(browser, cookie, address) for _ in range(1 + TIMES)]
        browser.close()
    return seconds[1:]


@contextmanager
def _served() -> Iterator[str]:
    """Start the service's own web server, with the static files that it serves, and yield its
    URL.
    """
    subprocess.run([sys.executable, "-c", PREPARE], check=True)
    port = free_port()
    command = [sys.executable, "-m", "webapp.web_server", "--bind", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        wait_until(lambda: _listens(port), START_SECONDS, "the web server listens")
        yield f"http://localhost:{port}"
        server.terminate()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _cookie(busy: BusyWorkspace) -> dict[str, Any]:
    from django.conf import settings
    from django.test import Client

    client = Client(SERVER_NAME="localhost")
    client.force_login(busy.user)
    name = settings.SESSION_COOKIE_NAME
    return {"name": name, "value": client.cookies[name].value}


def _visit(browser: Browser, cookie: dict[str, Any], address: str) -> float:
    """Visit with an empty cache, and return the seconds."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_cookies([cookie])  # type: ignore[list-item]
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(address, wait_until="commit")
    seconds = page.evaluate("window.firstChart") / 1000
    context.close()
    return float(seconds)


if __name__ == "__main__":
    sys.exit(main())
