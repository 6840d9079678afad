"""The work that `bench.kills` disturbs: analyses of uploaded runs, and imports."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

from django.test import Client
from trimtab.packing import Parts

from tests.faults import audit
from tests.faults.agents import NumberedAgent, Told, Wire
from tests.faults.house import House
from tests.faults.schedule import Plan, Schedule, start_seconds
from tests.imports.folders import sagemaker
from tests.imports.test_mutated import recording
from tests.running_service import wait_until

if TYPE_CHECKING:
    from bench.kills import Figures

PART_BYTES = 200_000
UNDISTURBED_SECONDS = 300
STATED = {
    "provider": "aws",
    "service": "ec2",
    "region": "us-east-1",
    "instance_type": "p3.2xlarge",
    "purchase_option": "on_demand",
}
COUNTS = """
SELECT (SELECT COUNT(*) FROM runs_node n JOIN runs_attempt a ON a.id = n.attempt_id
        WHERE a.run_id = :run),
       (SELECT COUNT(*) FROM runs_session s JOIN runs_node n ON n.id = s.node_id
        JOIN runs_attempt a ON a.id = n.attempt_id WHERE a.run_id = :run),
       (SELECT SUM(c.size_bytes) FROM runs_chunk c JOIN runs_node n ON n.id = c.node_id
        JOIN runs_attempt a ON a.id = n.attempt_id
        WHERE a.run_id = :run AND c.replaced_at IS NULL)
"""
"""Nodes, sessions and stored bytes of a run."""


def numbered_agent(house: House, told: Told, job: str, count: int) -> NumberedAgent:
    """Return an agent of a run and a machine of its own, which began about an hour ago."""
    run_id = uuid4()
    return NumberedAgent(
        cast(Client, Wire(house.service.url, told)),
        house.token,
        job=job,
        run_id=run_id,
        machine_id=f"machine-{run_id}",
        started_at_ns=start_seconds() * 10**9,
        count=count,
    )


class Work:
    """One kind of background work. A row belongs to a run."""

    name = rows = ""
    """The name of the work, and the rows of one run with their table's alias `w`."""
    usual_seconds = 0.2
    """The usual time for which a worker holds one, undisturbed."""

    def __init__(self, house: House) -> None:
        self.house, self.told = house, Told()
        self.runs: list[UUID] = []

    def is_held(self, run_id: UUID) -> bool:
        return self._asked("leased_until IS NOT NULL AND done < wanted", run_id)

    def is_done(self, run_id: UUID) -> bool:
        return self._asked("done = wanted OR given_up_at IS NOT NULL", run_id)

    def end_lease(self, run_id: UUID) -> None:
        """End the lease of the run's row, as if its time were over."""
        database = self.house.data_dir / "trimtab.sqlite3"
        chosen = f"id IN (SELECT w.id {self.rows})"
        ended = f"SET leased_until = '2026-01-01 00:00:00' WHERE {chosen}"
        with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
            connection.execute(f"UPDATE {self.table} {ended}", {"run": run_id.hex})

    @property
    def table(self) -> str:
        return self.rows.split()[1]

    def _asked(self, condition: str, run_id: UUID) -> bool:
        sql = f"SELECT {condition} {self.rows}"
        return bool(self._rows(sql, run_id) == [(1,)])

    def _rows(self, sql: str, run_id: UUID) -> list[tuple[Any, ...]]:
        address = f"file:{self.house.data_dir / 'trimtab.sqlite3'}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=30)) as connection:
            return connection.execute(sql, {"run": run_id.hex}).fetchall()


class Analyses(Work):
    """The judging of whole runs."""

    name = "analysis"
    rows = "FROM analysis_analysis w WHERE w.run_id = :run"

    def __init__(self, house: House) -> None:
        super().__init__(house)
        self.agents: list[NumberedAgent] = []

    def upload(self, chance: random.Random) -> UUID:
        agent = numbered_agent(
            self.house, self.told, f"analysed-{len(self.runs)}", chance.randint(2, 6)
        )
        agent.declare()
        agent.put_artefact(agent.artefact, kind="report", name="report.bin")
        agent.upload_together(range(agent.count))
        self.runs.append(agent.run_id)
        self.agents.append(agent)
        return agent.run_id

    def is_done(self, run_id: UUID) -> bool:
        return self._asked("is_final AND done >= wanted OR given_up_at IS NOT NULL", run_id)

    def differences(self, run_id: UUID) -> Iterator[str]:
        return iter(())

    def audit(self, figures: Figures) -> None:
        plans = [Plan(agent, []) for agent in self.agents]
        schedule = Schedule(0, [], [], plans)
        samples = audit.of_samples(self.house, schedule)
        costs = audit.of_costs(self.house, [schedule])
        figures.runs += len(self.agents)
        figures.lost += samples.lost + samples.artefacts_lost
        figures.doubled += samples.doubled
        figures.costs += costs.costs
        figures.wrong_costs += costs.wrong_costs
        figures.problems += samples.problems + costs.problems


class Imports(Work):
    """The conversion of uploaded files."""

    name = "import"
    rows = (
        "FROM imports_import w JOIN runs_artefact f ON f.id = w.artefact_id WHERE f.run_id = :run"
    )
    forms = ("sagemaker", "nsys", "wandb", "tensorboard")

    def __init__(self, house: House, folder: Path) -> None:
        super().__init__(house)
        self._folder = folder
        self._form: dict[UUID, str] = {}
        self._seconds = dict.fromkeys(self.forms, 60.0)
        self._undisturbed = {form: self._made(form) for form in self.forms}

    def upload(self, chance: random.Random) -> UUID:
        form = chance.choice([*self.forms, *["sagemaker"] * 3])
        self.usual_seconds = self._seconds[form]
        return self._upload(form)

    def differences(self, run_id: UUID) -> Iterator[str]:
        form = self._form[run_id]
        wait_until(lambda: self._is_analysed(run_id), UNDISTURBED_SECONDS, f"{run_id} is analysed")
        known, found = self._undisturbed[form], self._facts(run_id)
        self._learn(form, run_id)
        for name, value in known.items():
            if found[name] != value:
                yield f"{form} {run_id}: {name} {found[name]} instead of {value}"

    def audit(self, figures: Figures) -> None:
        figures.runs += len(self.runs)
        figures.costs += len(self.runs)
        for run_id in self.runs:
            known, found = self._undisturbed[self._form[run_id]], self._facts(run_id)
            figures.wrong_costs += known["cost"] != found["cost"]
            figures.lost += known["records"] != found["records"]
            figures.doubled += known["rows"] != found["rows"]

    def _made(self, form: str) -> dict[str, Any]:
        """Return the facts of an import that nobody disturbs."""
        place = self._folder / form
        if form == "sagemaker":
            sagemaker(place, seconds=1200, nodes=2)
        else:
            recording(form, place)
        run_id = self._upload(form)
        wait_until(lambda: self.is_done(run_id), UNDISTURBED_SECONDS, f"the import of {form}")
        self._learn(form, run_id)
        wait_until(lambda: self._is_analysed(run_id), UNDISTURBED_SECONDS, f"{form} is analysed")
        facts = self._facts(run_id)
        assert not facts["error"], facts
        return facts

    def _learn(self, form: str, run_id: UUID) -> None:
        """Remember how long it takes. The first one may have waited for its process."""
        ((seconds,),) = self._rows(f"SELECT w.seconds {self.rows}", run_id)
        self._seconds[form] = min(self._seconds[form], seconds)

    def _upload(self, form: str) -> UUID:
        agent = numbered_agent(self.house, self.told, f"imported-{form}", 1)
        packed = self._folder / f"parts-{agent.run_id}"
        packed.mkdir()
        if form == "sagemaker":
            self._rename_training_job()
        parts = list(Parts(self._folder / form, packed, part_bytes=PART_BYTES))
        for part in parts:
            agent.put_artefact(part.path.read_bytes(), kind="import-part", name=part.path.name)
            part.path.unlink()
        packed.rmdir()
        said = {"version": 1, "name": form, "parts": [part.sha256 for part in parts]}
        said["stated"] = STATED | {"job": agent.job}
        agent.put_artefact(json.dumps(said).encode(), kind="import", name=f"{form}.import.json")
        self.runs.append(agent.run_id)
        self._form[agent.run_id] = form
        return agent.run_id

    def _rename_training_job(self) -> None:
        """Rename the training job: two runs of one job at one time would share the costs of its
        machines.
        """
        (job,) = [path for path in (self._folder / "sagemaker").iterdir() if path.is_dir()]
        job.rename(job.with_name(f"vision-{len(self.runs)}-2026-01-01-00-00-00-000"))

    def _is_analysed(self, run_id: UUID) -> bool:
        sql = "SELECT is_final AND done >= wanted FROM analysis_analysis WHERE run_id = :run"
        return self._rows(sql, run_id) == [(1,)]

    def _facts(self, run_id: UUID) -> dict[str, Any]:
        """Return what doesn't depend on when it was imported, or by how many workers."""
        result, error = self._rows(f"SELECT w.result, w.error {self.rows}", run_id)[0]
        document = self.house.get(f"/api/v1/runs/{run_id}")
        return {
            "error": error,
            "records": json.loads(result or "{}").get("records"),
            "rows": self._rows(COUNTS, run_id),
            "duration": document["duration_seconds"],
            "cost": document["cost_usd"],
        }
