"""Measures what a workspace notices while two others hammer every importer, search and page.

    python -m bench.hammered            prints the figures
    python -m bench.hammered --check    fails where a promise is broken

On a real service, two workspaces upload large and hostile recordings of every format, search with
costly filters and ask for pages, each from several threads without a pause, for as long as it
takes. A third one watches: how soon `/healthz` answers, how soon a finding appears after its last
evidence, and how soon its own small import begins and is done.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from statistics import quantiles
from uuid import uuid4

import requests

from bench.bounds import Victim
from bench.figures import note
from bench.hammered_files import archives, small_table
from tests.running_service import Service, manage, wait_until

HEALTH_SECONDS, FINDING_SECONDS, BEGUN_SECONDS = 1.0, 30.0, 30.0
HAMMERED_BEFORE_SECONDS = 20.0
ASK_EVERY_SECONDS = 0.2
ROUNDS = 3
TAG = "a" * 8_000
FILTERS = ("tags.x LIKE '%a%a%a%ab'", "tags.x ILIKE '%" + "a_" * 200 + "b'", "tags.x = 'b'")
PAGES = ("/api/v1/runs", "/api/v1/jobs", "/api/v1/openapi.json", "/healthz")


@dataclass
class Tenant:
    """A workspace that hammers."""

    url: str
    token: str
    answers: Counter[str] = field(default_factory=Counter)
    ended: threading.Event = field(default_factory=threading.Event)

    def begin(self, files: dict[str, bytes]) -> None:
        run_id = self._tagged_run()
        names = cycle(files)
        chosen, pages = count(), cycle(PAGES)
        for work in (
            lambda: self.upload(files[next(names)]),
            lambda: self.upload(files[next(names)]),
            lambda: self._search(run_id, FILTERS[next(chosen) % len(FILTERS)]),
            lambda: self._search(run_id, FILTERS[next(chosen) % len(FILTERS)]),
            lambda: self._get(next(pages)),
        ):
            threading.Thread(target=self._repeat, args=(work,), daemon=True).start()

    def upload(self, body: bytes) -> str:
        """Begin an import into a new run. Returns its id."""
        run = str(uuid4())
        answer = requests.put(
            f"{self.url}/api/v1/runs/{run}/artefacts/{hashlib.sha256(body).hexdigest()}",
            body,
            headers=self._headers
            | {"X-Trimtab-Kind": "import", "X-Trimtab-Name": "x.tar.gz", "X-Trimtab-Job": "x"},
            timeout=120,
        )
        self._count("import", answer)
        return run

    def imports(self, run: str) -> list[dict]:  # type: ignore[type-arg]
        answer = requests.get(
            f"{self.url}/api/v1/runs/{run}/imports", headers=self._headers, timeout=60
        )
        return list(answer.json()) if answer.ok else []

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def _repeat(self, work: Callable[[], object]) -> None:
        while not self.ended.is_set():
            try:
                work()
            except requests.RequestException as error:
                self.answers[type(error).__name__] += 1
                time.sleep(0.5)

    def _tagged_run(self) -> str:
        tags = [{"key": "x", "value": TAG}]
        begun = self._call("runs/create", {"experiment_id": "0", "tags": tags}).json()
        return str(begun["run"]["info"]["run_id"])

    def _search(self, run_id: str, text: str) -> None:
        self._call("runs/search", {"experiment_ids": ["0"], "filter": text, "max_results": 10})

    def _get(self, path: str) -> None:
        self._count("page", requests.get(self.url + path, headers=self._headers, timeout=60))

    def _call(self, method: str, said: dict) -> requests.Response:  # type: ignore[type-arg]
        address = f"{self.url}/api/2.0/mlflow/{method}"
        answer = requests.post(address, json=said, headers=self._headers, timeout=60)
        self._count(method, answer)
        return answer

    def _count(self, what: str, answer: requests.Response) -> None:
        self.answers[f"{what} {answer.status_code}"] += 1
        if answer.status_code == requests.codes.too_many_requests:
            time.sleep(0.2)


class Health(threading.Thread):
    """Asks for `/healthz`, and keeps how long each answer took."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.seconds: list[float] = []
        self._url, self._done = url, threading.Event()

    def run(self) -> None:
        while not self._done.wait(ASK_EVERY_SECONDS):
            began = time.monotonic()
            try:
                requests.get(f"{self._url}/healthz", timeout=30).raise_for_status()
            except requests.RequestException:
                self.seconds.append(30.0)
            else:
                self.seconds.append(time.monotonic() - began)

    def p99_seconds(self) -> float:
        self._done.set()
        return quantiles(self.seconds, n=100)[98]


def tokens(service: Service, names: list[str]) -> list[str]:
    """Make a workspace of each name, with a token that may do everything."""
    code = (
        "from webapp.accounts.models import Token, Workspace\n"
        f"for name in {names!r}:\n"
        "    w = Workspace.objects.create(name=name)\n"
        "    print('TOKEN', Token.make(w, 'a', ['ingest', 'read', 'write'])[1])\n"
    )
    out, _ = manage(service.data_dir, "shell", "-c", code).communicate(timeout=120)
    return [line.split()[1] for line in out.splitlines() if line.startswith("TOKEN")]


def seconds_of_import(tenant: Tenant) -> tuple[float, float]:
    """Return how long a small import waits, and until it is done."""
    began = time.monotonic()
    run = tenant.upload(small_table())

    def state() -> str:
        found = tenant.imports(run)
        return str(found[0]["state"]) if found else "due"

    wait_until(lambda: state() != "due", 300, "the import begins")
    begun = time.monotonic() - began
    wait_until(lambda: state() in ("done", "failed"), 300, "the import ends")
    assert state() == "done", tenant.imports(run)
    return begun, time.monotonic() - began


def measure() -> bool:
    """Print the figures. Returns whether all promises were kept."""
    files = archives()
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder)).start()
        try:
            first, second, third = tokens(service, ["First", "Second", "Third"])
            hammering = [Tenant(service.url, each) for each in (first, second)]
            quiet = Tenant(service.url, third)
            for tenant in hammering:
                tenant.begin(files)
            time.sleep(HAMMERED_BEFORE_SECONDS)
            health = Health(service.url)
            health.start()
            found = [Victim(service.url, third).seconds_to_finding() for _ in range(ROUNDS)]
            imported = [seconds_of_import(quiet) for _ in range(ROUNDS)]
            p99 = health.p99_seconds()
            for tenant in hammering:
                tenant.ended.set()
        finally:
            service.stop()
    answers = sum((tenant.answers for tenant in hammering), Counter[str]())
    print(f"answers to the two: {', '.join(f'{k}: {n}' for k, n in sorted(answers.items()))}")
    begun, done = max(each[0] for each in imported), max(each[1] for each in imported)
    measured = (
        f"health p99 {1000 * p99:.0f} ms, finding after {max(found):.1f} s, import begun after "
        f"{begun:.1f} s, done after {done:.1f} s"
    )
    print(measured)
    no_failure = not any(key.split()[-1].startswith("5") for key in answers)
    is_kept = p99 < HEALTH_SECONDS and max(found) < FINDING_SECONDS and begun < BEGUN_SECONDS
    note("hammered", measured, is_kept and no_failure)
    return is_kept and no_failure


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    is_kept = measure()
    return 0 if is_kept or not asked.check else 1


if __name__ == "__main__":
    sys.exit(main())
