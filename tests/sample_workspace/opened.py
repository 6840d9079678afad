"""The sample workspace in a real service, as its owner sees it: made once, for all of its tests."""

from __future__ import annotations

import re
import subprocess
import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import requests
from playwright.sync_api import Browser, BrowserContext

from tests.processes.person import Person
from tests.running_service import Service, manage
from webapp.sample_data.histories import WORKSPACE
from webapp.sample_data.jobs import JOBS
from webapp.sample_data.live import LiveRun
from webapp.sample_data.load import LoadConnection, uploads_of

Theme = Literal["light", "dark"]
CHROMIUM = Path("/usr/bin/chromium")
LOADED_SECONDS = 280


@dataclass
class SampleWorkspace:
    """Sign-in cookies, and tokens of it. `live` is its run that goes on."""

    service: Service
    person: Person = field(init=False)
    read_token: str = field(init=False)
    _live: LiveRun = field(init=False)
    _is_over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.person = Person(self.service)
        self.switch("Sample data")
        self.read_token = self._new_token("read")
        self._live = LiveRun(self.service.url, self._new_token("ingest"), datetime.now(UTC))
        self._live.tick(datetime.now(UTC))
        threading.Thread(target=self._tick, daemon=True).start()

    def switch(self, name: str) -> None:
        page = self.person.session.get(f"{self.service.url}/", timeout=20).text
        [found] = re.findall(
            rf'name="workspace"\s+value="([^"]+)"[^>]*>(?:\s*<[^>]+>)*\s*{name}', page
        )
        self.person.send(self.service.url, f"{self.service.url}/workspace/", {"workspace": found})

    def api(self, path: str) -> Any:
        answer = requests.get(
            f"{self.service.url}/api/v1/{path}",
            headers={"Authorization": f"Bearer {self.read_token}"},
            timeout=30,
        )
        answer.raise_for_status()
        return answer.json()

    def page(self, path: str) -> str:
        return self.person.page(self.service.url + path)

    def window(
        self, chromium: Browser, theme: Theme = "light", *, scripts: bool = True
    ) -> BrowserContext:
        """Open a window that is signed in and 1440 px wide."""
        context = chromium.new_context(
            base_url=self.service.url,
            color_scheme=theme,
            java_script_enabled=scripts,
            viewport={"width": 1440, "height": 900},
        )
        for each in self.person.session.cookies:
            value = str(each.value)
            context.add_cookies([{"name": each.name, "value": value, "url": self.service.url}])
        return context

    def run_again(self, job: str, **changed: Any) -> None:
        """Begin a further run of a sample job now, its training changed, and upload it whole."""
        [sample] = [each for each in JOBS if each.name == job]
        latest = sample.stages[-1]
        training = replace(latest.training, **changed)
        later = replace(latest, days_ago=(0,), training=training, commit="later")
        now = datetime.now(UTC)
        *_, run = replace(sample, stages=(*sample.stages, later)).runs(now, WORKSPACE)
        connection = LoadConnection(self.service.url, self._new_token("ingest"))
        for upload in uploads_of(replace(run, started_at=now)):
            connection.put(upload)
        connection.close()

    @property
    def live_run(self) -> str:
        return self._live.run_id

    def close(self) -> None:
        self._is_over.set()
        self.service.stop()

    def _new_token(self, scope: str) -> str:
        address = f"{self.service.url}/settings/tokens/"
        shown = self.person.send(address, address, {"name": scope, "scopes": [scope], "days": ""})
        found = re.search(r"\btt_[\w-]{20,}", shown)
        assert found is not None
        return found[0]

    def _tick(self) -> None:
        while not self._is_over.wait(1):
            try:
                self._live.tick(datetime.now(UTC))
            except Exception:
                return


def open_sample(data_dir: Path) -> SampleWorkspace:
    """Make the workspace as `manage.py demo --sample-data` leaves it."""
    service = Service(data_dir).start()
    loading = manage(data_dir, "demo", "--sample-data", "--exit")
    try:
        said, _ = loading.communicate(timeout=LOADED_SECONDS)
    except subprocess.TimeoutExpired:
        loading.kill()
        raise
    assert loading.returncode == 0, said
    return SampleWorkspace(service)
