"""Writes what a release leaves on a disk: `python -m tests.upgrade.release NAME`.

A real service of this checkout takes runs, and people set what they can set. Its data folder, what
its API answered and the uploads of an agent that kept its last run go into `releases/NAME.tar.xz`.
Later versions have to open that folder, answer the same and take the uploads: see
`test_upgrade.py`. It is made once, when the version is released.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.processes.person import Person
from tests.running_service import Service, wait_until
from tests.upgrade.reads import Api, answers
from tests.upgrade.uploads import send, to_document
from webapp.sample_data.histories import runs_of
from webapp.sample_data.load import uploads_of
from webapp.sample_data.published import published_runs
from webapp.sample_data.simulation import SimulatedRun

RELEASES = Path(__file__).parent / "releases"
ANALYSED_SECONDS = 300
DATABASE = "trimtab.sqlite3"
KEPT = ("secret-key", "agent-token", "objects")
"""The files of a data folder that are kept, beside its database: all else is made anew at each
start."""


@dataclass
class Story:
    """The events in one workspace before the release."""

    service: Service
    runs: list[SimulatedRun]
    person: Person = field(init=False)
    token: str = field(init=False)
    api: Api = field(init=False)

    def __post_init__(self) -> None:
        self.person = Person(self.service)
        self.token = self._new_token()
        self.api = Api(self.service.url, self.token)

    @property
    def present(self) -> list[str]:
        """Return the runs that nobody deletes."""
        ids = [str(run.run_id) for run in self.runs]
        return [*ids[:3], *ids[4:]]

    def tell(self) -> None:
        self._set_prices()
        for run in self.runs:
            for upload in uploads_of(run):
                send(self.service.url, self.service.token, upload)
        self._wait_for_analyses()
        self._decide()
        self._wait_for_analyses()

    def _new_token(self) -> str:
        form = {"name": "Scripts", "scopes": ["read", "write"], "days": ""}
        shown = re.search(r"\btt_[\w-]+", self._fill_in("/settings/tokens/", form))
        assert shown is not None
        return shown[0]

    def _set_prices(self) -> None:
        page, since = "/settings/rates/", {"valid_from": "2020-01-01"}
        bought = {"service": "ec2", "instance_type": "c5.large", "purchase_option": "spot"}
        rate = {"region": "us-east-1", "usd_per_hour": "0.031"}
        self._fill_in(page, bought | rate | since, "/settings/rates/add/")
        discount = {"percent": "7.5", "family": "g4dn", "service": "ec2"}
        self._fill_in(page, discount | since, "/settings/rates/discount/")

    def _decide(self) -> None:
        """Make the decisions of people about runs, thresholds, a budget, a colleague, retention."""
        first, second, third, deleted, *_ = [f"/api/v1/runs/{run.run_id}" for run in self.runs]
        self.api.send("PATCH", first, {"note": "The published case.", "is_pinned": True})
        self.api.send("PATCH", second, {"billed_usd": "1.07", "owner": "Ada"})
        self.api.send("PATCH", third, {"tags": {"team": "vision"}})
        self.api.send("DELETE", deleted)
        thresholds = {"input_bound.fire_share_pct": 12, "idle_tail.least_seconds": 90}
        self.api.send("PUT", "/api/v1/rules", {"parameters": thresholds})
        budget = {"kind": "workspace", "amount_usd": "250", "threshold_pct": "80"}
        self._fill_in("/budgets/new/", budget)
        self._fill_in("/settings/members/", {"email": "grace@example.org", "role": "member"})
        # Samples would go with time, and what is asked of them with them.
        self._fill_in("/settings/retention/", {"keep_raw_days": "", "keep_tiers_days": ""})

    def _fill_in(self, page: str, form: dict[str, object], action: str = "") -> str:
        return self.person.send(self._address(page), self._address(action or page), form)

    def _address(self, path: str) -> str:
        return self.service.url + path

    def _wait_for_analyses(self) -> None:
        wait_until(self._are_analysed, ANALYSED_SECONDS, "every run is analysed")

    def _are_analysed(self) -> bool:
        database = sqlite3.connect(self.service.data_dir / DATABASE)
        due = "SELECT count(*) FROM analysis_analysis WHERE done < wanted OR NOT is_final"
        (open_analyses,) = database.execute(due).fetchone()
        (again,) = database.execute(
            "SELECT count(*) FROM rulebook_rejudging WHERE done < wanted"
        ).fetchone()
        database.close()
        return open_analyses == again == 0


def write(name: str) -> Path:
    """Returns the archive's path."""
    now = datetime.now(UTC)
    *sent, unsent = [
        *published_runs("release"),
        *runs_of("product-photos/train.py", now, "release"),
    ]
    months = ["2020-12", f"{now:%Y-%m}"]
    with tempfile.TemporaryDirectory(prefix="trimtab-release-") as folder:
        root = Path(folder)
        service = Service(root / "running", has_tables=False).start()
        try:
            story = Story(service, sent)
            story.tell()
            answered = answers(story.api, story.present, months)
        finally:
            service.stop()
        _keep(service.data_dir, root / "release" / "data")
        documents = {
            "answers": answered,
            "unsent": [to_document(upload) for upload in uploads_of(unsent)],
            "facts": {"token": story.token, "runs": story.present, "months": months},
        }
        for file, document in documents.items():
            text = json.dumps(document, indent=1)
            (root / "release" / f"{file}.json").write_text(text, encoding="utf-8")
        return _pack(root / "release", RELEASES / f"{name}.tar.xz")


def _keep(data: Path, kept: Path) -> None:
    kept.mkdir(parents=True)
    with sqlite3.connect(data / DATABASE) as database:
        database.execute("VACUUM INTO ?", [str(kept / DATABASE)])
    for each in KEPT:
        copy = shutil.copytree if (data / each).is_dir() else shutil.copy2
        copy(data / each, kept / each)


def _pack(folder: Path, archive: Path) -> Path:
    archive.parent.mkdir(exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        packed.add(folder, arcname=".")
    return archive


if __name__ == "__main__":
    sys.stdout.write(f"{write(sys.argv[1])}\n")
