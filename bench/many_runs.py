"""A workspace with 100,000 runs of sweeps, for the table of runs: rows that the table reads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from bench.run_rows import BATCH, new_run

JOBS, SWEEP_RUNS, METRICS = 1000, 20, 8
MINUTES = 2
"""The time between two runs."""
RATES = (0.1, 0.03, 0.01, 0.003)
OPTIMIZERS = ("adam", "adamw", "sgd")
FILTERS = {
    "filtered": "filter=lr = 0.1 and started > {day}",
    "of a day": "filter=lr = 0.1 and started = {day}",
    "of a sweep": "filter=sweep = sweep-77&column=param.lr&column=metric.loss&sort=metric.loss",
    "of many conditions": "filter=lr >= 0.01 and optimizer LIKE 'adam%25' and metric.loss < 0.5"
    " and cost > 0.4&sort=-metric.loss",
    "by a metric": "sort=-metric.loss&column=metric.loss&column=param.lr",
    "by cost": "sort=-cost",
    "by duration": "sort=duration",
    "searched": "q=train-77",
    "grouped": "group=param.lr&column=metric.loss",
    "by sweep": "group=tag.sweep",
}
"""Forms of the table: name -> query."""


class ManyRuns:
    """The workspace, and the person who looks at it."""

    def __init__(self, count: int) -> None:
        from webapp.accounts.models import Membership, User, Workspace
        from webapp.database.tasks import optimise_database
        from webapp.runs.models import Job

        self.workspace = Workspace.objects.create(name="Sweeps")
        self.user = User.objects.create_user("grace@example.org")
        Membership.objects.create(workspace=self.workspace, user=self.user, role=Membership.OWNER)
        self._jobs = Job.objects.bulk_create(
            Job(workspace=self.workspace, name=f"train-{n}.py", key=f"train-{n}.py")
            for n in range(JOBS)
        )
        self._chance = random.Random(7)
        for first in range(0, count, BATCH):
            self._make(range(first, min(first + BATCH, count)))
        optimise_database()

    def addresses(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the address of each form of the table."""
        day = f"{datetime.now(UTC) - timedelta(days=4):%Y-%m-%d}"
        yield "table of 100,000 runs", "/runs/"
        yield "table of 100,000 runs, far back", "/runs/?page=1500"
        for name, query in FILTERS.items():
            yield f"table of 100,000 runs, {name}", f"/runs/?{quote(query.format(day=day), '=&%')}"

    def _make(self, numbers: range) -> None:
        from webapp.runs.models import Run
        from webapp.runs.run_values import write_values

        runs = [self._run(number) for number in numbers]
        Run.objects.bulk_create(runs, batch_size=BATCH)
        write_values(runs)

    def _run(self, number: int) -> Any:
        job = self._jobs[number % JOBS]
        run = new_run(job, 1 + number // JOBS, hours_ago=number * MINUTES / 60)
        run.parameters = {
            "lr": self._chance.choice(RATES),
            "optimizer": self._chance.choice(OPTIMIZERS),
            "seed": number,
        }
        run.metrics = {"loss": self._chance.random()}
        run.metrics |= {f"metric-{n}": self._chance.random() for n in range(METRICS - 1)}
        run.tags = {"sweep": f"sweep-{number // SWEEP_RUNS}"}
        run.ended_at = run.started_at + timedelta(seconds=self._chance.randrange(60, 7200))
        return run
