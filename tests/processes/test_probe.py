"""A probe on a faster machine changes the advice while the real service runs."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from trimtab.wire import Probe

from tests.processes.test_mail import PatientClient
from tests.running_service import Service, wait_until
from tests.service.test_probes import OTHERS, T4, Training
from tests.service.uploads import FakeAgent

pytestmark = pytest.mark.processes
PATIENCE_SECONDS = 60
"""The seconds from the upload of the probe to the advice."""
HOUR_MS = 3_600_000
STEP_MS = 10_000
HOURS = 200
"""The hours of the training: so many that measuring costs less than it may save."""


@dataclass
class Site:
    """A service, and a training that ran on a g4dn.xlarge for some days."""

    service: Service
    run: Training

    def probe(self, **unlike: Any) -> None:
        """Replay a probe on the first machine that was to be measured."""
        [machine, *_] = json.loads(self.advice("probe")[0])["probe"]
        agent = replace(self.run.agent, started_at_ns=time.time_ns() - 600 * 10**9)
        probe = Training(
            agent, machine=OTHERS[machine], probe=Probe(steps=100), state="stopped",
            segment_ms=120_000, **{"step_ms": STEP_MS // 5, "batch": 128} | unlike,
        )  # fmt: skip
        probe.send()

    def advice(self, kind: str) -> list[str]:
        """Return the changes that are recommended."""
        rows = self._query(
            "SELECT change FROM advice_recommendation"
            " WHERE kind = ? AND state = 'active' AND NOT is_provisional",
            kind,
        )
        return [change for (change,) in rows]

    def measured(self) -> int:
        [(count,)] = self._query("SELECT COUNT(*) FROM measurements_measurement")
        return int(count)

    def _query(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        database = self.service.data_dir / "trimtab.sqlite3"
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=20) as connection:
            return connection.execute(sql, values).fetchall()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    service = Service(tmp_path_factory.mktemp("probes")).start()
    try:
        client = PatientClient(service)
        agent = FakeAgent(client, service.token)  # type: ignore[arg-type]
        agent.started_at_ns = time.time_ns() - (HOURS + 1) * HOUR_MS * 10**6
        run = Training(agent, T4, step_ms=STEP_MS, segments=HOURS, segment_ms=HOUR_MS)
        run.send()
        yield Site(service, run)
    finally:
        service.stop()


def test_a_probe_of_another_batch_changes_nothing_and_one_of_the_same_decides(site: Site) -> None:
    wait_until(lambda: site.advice("probe"), 60, "measure this first")
    assert site.advice("change_instance_type") == []
    site.probe(batch=64)
    wait_until(lambda: site.measured() == 2, PATIENCE_SECONDS, "the wrong probe is kept")
    assert site.advice("change_instance_type") == []
    site.probe()
    wait_until(
        lambda: site.advice("change_instance_type"), PATIENCE_SECONDS, "a switch", site.measured
    )
    [change] = site.advice("change_instance_type")
    assert json.loads(change)["instance_type"] in OTHERS
