"""Parts of the service are killed in the middle of a run: no sample and no cent differs."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from decimal import ROUND_HALF_UP, Decimal

import pytest
from trimtab.wire import decode_segment

from tests.processes.conftest import Machine
from tests.processes.power import SwiftAgent, copy_data, lose_power, restore_data
from tests.running_service import Service, wait_until

pytestmark = pytest.mark.processes
C5_LARGE_USD_PER_HOUR = Decimal("0.085")


class Stored:
    """The service's data of a run, read from its own files."""

    def __init__(self, service: Service, run_id: str) -> None:
        self.service, self.run_id = service, run_id.replace("-", "")

    def query(self, sql: str) -> list[tuple]:
        database = self.service.data_dir / "trimtab.sqlite3"
        # Closed at once: an open connection would keep the files of before a power loss.
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=20)) as rows:
            return rows.execute(sql, {"run": self.run_id}).fetchall()

    def is_final(self) -> bool:
        sql = "SELECT is_final AND wanted = done FROM analysis_analysis WHERE run_id = :run"
        return self.query(sql) == [(1,)]

    def segments(self) -> dict[tuple[str, int], bytes]:
        folder = self.service.data_dir / "objects"
        return {place: (folder / key).read_bytes() for place, key in self.rows().items()}

    def rows(self) -> dict[tuple[str, int], str]:
        """Return the key of each segment's object."""
        rows = self.query(
            "SELECT g.session_id, g.seq, g.object_key FROM runs_segment g"
            " JOIN runs_session s ON s.id = g.session_id JOIN runs_node n ON n.id = s.node_id"
            " JOIN runs_attempt a ON a.id = n.attempt_id WHERE a.run_id = :run"
        )
        return {(_dashed(s), seq): key for s, seq, key in rows}

    def cost_nano_usd(self) -> int:
        return int(self.query("SELECT cost_usd FROM runs_run WHERE id = :run")[0][0])

    def parts_nano_usd(self) -> int:
        sql = "SELECT SUM(usd) FROM analysis_costpart WHERE run_id = :run"
        return int(self.query(sql)[0][0])

    def judgements(self) -> dict[str, str]:
        return dict(self.query("SELECT rule, state FROM analysis_judgement WHERE run_id = :run"))

    def work(self) -> dict[str, float]:
        return dict(json.loads(self.query("SELECT work FROM runs_run WHERE id = :run")[0][0]))


def _dashed(session: str) -> str:
    parts = (session[:8], session[8:12], session[12:16], session[16:20], session[20:])
    return "-".join(parts) if "-" not in session else session


def expected_cost_nano_usd(bodies: dict[tuple[str, int], bytes]) -> int:
    """Return the cost from the agent's own segments alone: the session's length times the price."""
    ends = [
        segment.start_ms + event.time_ms
        for segment in map(decode_segment, bodies.values())
        for event in segment.events
        if event.kind == "session_end"
    ]
    (end_ms,) = ends
    nano_usd = C5_LARGE_USD_PER_HOUR * 10**9 * end_ms / 3_600_000
    return int(nano_usd.quantize(Decimal(1), ROUND_HALF_UP))


def assert_nothing_differs(service: Service, machine: Machine) -> None:
    stored = Stored(service, machine.run_id)
    wait_until(stored.is_final, 90, "the final analysis")
    sent = machine.spooled()
    assert stored.segments() == sent
    assert stored.cost_nano_usd() == expected_cost_nano_usd(sent)
    assert stored.parts_nano_usd() == stored.cost_nano_usd()
    steps = sum(len(b.start_us) for s in map(decode_segment, sent.values()) for b in s.steps)
    assert stored.work()["steps"] == steps
    assert stored.judgements()["input_bound"] in ("fired", "insufficient_data")


def hold_down(service: Service, name: str, seconds: float) -> None:
    """`kill -9`, and for so long nobody starts it again."""
    assert service.supervisor is not None
    os.kill(service.supervisor.pid, signal.SIGSTOP)
    try:
        service.kill(name)
        time.sleep(seconds)
    finally:
        os.kill(service.supervisor.pid, signal.SIGCONT)
    wait_until(lambda: service.part(name) is not None, 40, f"{name} starts again")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["web", "worker", "redis"])
def test_no_sample_and_no_cent_differs_when_a_part_is_killed(service, machine, name):
    """The agent is the real one. `tests/faults` does more, with simulated agents."""
    training = machine.run(24)
    time.sleep(11)
    hold_down(service, name, 5)
    assert training.wait(60) == 0
    assert machine.sync().wait(60) == 0
    assert_nothing_differs(service, machine)


@pytest.mark.long
def test_no_sample_and_no_cent_differs_when_all_parts_are_killed_in_turn(service, machine):
    training = machine.run(120)
    time.sleep(15)
    for name in ("web", "worker", "redis"):
        hold_down(service, name, 30 if name == "web" else 5)
        time.sleep(5)
    assert training.wait(200) == 0
    assert machine.sync().wait(60) == 0
    assert_nothing_differs(service, machine)


def test_a_run_without_any_service_is_the_same_after_sync(service, tmp_path):
    offline = Machine(tmp_path)
    assert offline.run(12).wait(60) == 0
    before = offline.spooled()
    assert before
    offline.service = service
    assert offline.sync().wait(60) == 0
    assert offline.spooled() == before
    assert_nothing_differs(service, offline)


@pytest.mark.long
def test_what_a_power_loss_took_is_asked_for_and_sent_again(service, tmp_path):
    agent = SwiftAgent(tmp_path, service)
    agent.declare(owner="")
    agent.upload(*range(3))
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_data(service, copy)
    agent.declare(owner="ada")
    agent.upload(*range(3, 8))
    lose_power(service)
    restore_data(service, copy)
    stored = Stored(service, str(agent.made.run_id))
    objects = service.data_dir / "objects" / "runs" / str(agent.made.run_id)
    (lost,) = objects.rglob("000000001-*.segment")
    lost.unlink()
    service.start()
    assert {seq for _, seq in stored.rows()} == {0, 1, 2}

    agent.upload(8, last=True)

    assert agent.sent == 9 + 6
    assert stored.segments() == agent.bodies
    assert stored.query("SELECT owner FROM runs_run WHERE id = :run") == [("ada",)]
    wait_until(stored.is_final, 90, "the final analysis")
    assert stored.work()["steps"] == 9 * 50
