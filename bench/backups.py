"""Backs up a real service while many nodes write, restores the archive, and compares.

    python -m bench.backups --check                        200 nodes, SQLite
    python -m bench.backups --database postgres --check

What was acknowledged before the backup began must be in the archive, once, at the same costs; then
all agents go on with the restored service, as after a disaster: they send everything again, and
finish. Afterwards every sample must be there once, and every cost must equal a fresh count. With
--check it exits with 1 if that isn't so.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.figures import note

if TYPE_CHECKING:
    from tests.faults.agents import NumberedAgent
    from tests.faults.audit import Figures
    from tests.faults.house import House

FIRST_SEGMENTS, FIRST_SECONDS = 3, 300
SEGMENTS = 60
PAUSE_SECONDS = 1.0
NODES_A_RUN = 4
BACKUP_SECONDS, ANALYSED_SECONDS = 300, 600


class Fleet:
    """Nodes that upload segments until they are stopped."""

    def __init__(self, house: House, nodes: int, seed: int) -> None:
        from bench.kills_work import numbered_agent
        from tests.faults.agents import Told

        self.told, self._seed = Told(), seed
        self.agents = [numbered_agent(house, self.told, "fleet", SEGMENTS) for _ in range(nodes)]
        for number, agent in enumerate(self.agents):
            first = self.agents[number - number % NODES_A_RUN]
            agent.run_id, agent.job = first.run_id, f"fleet-{number // NODES_A_RUN}"
            agent.machine_id = f"machine-{number}"
        self._is_stopped = threading.Event()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with ThreadPoolExecutor(len(self.agents)) as pool:
            doing = [pool.submit(self._write, number) for number in range(len(self.agents))]
            try:
                yield
            finally:
                self._is_stopped.set()
        for each in doing:
            each.result()

    def _write(self, number: int) -> None:
        agent, chance = self.agents[number], random.Random(self._seed * 1000 + number)
        time.sleep(chance.uniform(0, PAUSE_SECONDS))
        agent.declare()
        for seq in range(SEGMENTS - 1):
            if self._is_stopped.is_set():
                break
            agent.upload(seq)
            time.sleep(PAUSE_SECONDS * chance.uniform(0.5, 1.5))

    def wait_for(self, segments: int) -> None:
        """Return once the agents were told of so many."""
        from tests.running_service import wait_until

        def is_there() -> bool:
            return sum(map(len, self.acknowledged_segments())) >= segments

        wait_until(is_there, FIRST_SECONDS, f"{segments} segments")

    def acknowledged_segments(self) -> list[set[int]]:
        return [set(agent.acknowledged) for agent in self.agents]

    def finish(self, house: House) -> None:
        """Send everything again to the restored service, the end of each session last."""
        for agent in self.agents:
            agent.client.url = house.service.url  # type: ignore[attr-defined]
            agent.count = max(agent.acknowledged, default=0) + 2
            vars(agent).pop("bodies", None)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(self._finish, self.agents))

    @staticmethod
    def _finish(agent: NumberedAgent) -> None:
        agent.declare()
        agent.put_artefact(agent.artefact, kind="report", name="report.bin")
        agent.upload_together(range(agent.count))


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--nodes", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    options.add_argument("--check", action="store_true")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-backups-") as folder:
        settings = {
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "TRIMTAB_DATA_DIR": f"{folder}/own",
        }
        os.environ |= settings
        return _carried_out(asked, Path(folder))


def _carried_out(asked: argparse.Namespace, folder: Path) -> int:
    import django

    django.setup()
    logging.disable(logging.WARNING)
    from tests.faults.audit import Figures
    from tests.faults.house import house

    found = Figures()
    with house(asked.database) as made:
        fleet = Fleet(made, asked.nodes, asked.seed)
        with fleet.writing():
            fleet.wait_for(FIRST_SEGMENTS * asked.nodes)
            before = fleet.acknowledged_segments()
            _manage(made, "backup", str(folder / "backup.tar"))
            after = fleet.acknowledged_segments()
        _restore(made, folder / "backup.tar")
        _compare(made, fleet, before, after, found)
        fleet.finish(made)
        _audit(made, fleet, found)
    return _report(found, fleet, (before, after), asked)


def _manage(house: House, *words: str) -> None:
    from tests.running_service import manage

    process = manage(house.data_dir, *words, **house.variables)
    said, _ = process.communicate(timeout=BACKUP_SECONDS)
    assert process.returncode == 0, said


def _restore(house: House, archive: Path) -> None:
    """Restore into the same place, which is emptied: as on a new machine."""
    house.service.stop()
    _manage(house, "restore", "--replace", str(archive))
    house.start()
    house.recover()


def _compare(
    house: House,
    fleet: Fleet,
    before: list[set[int]],
    after: list[set[int]],
    found: Figures,
) -> None:
    """Check that the archive has what was acknowledged when the backup began, and nothing of after
    its end plus one: an upload may be stored and its answer under way.
    """
    from uuid import UUID

    sql = "SELECT session_id, seq FROM runs_segment"
    stored: dict[UUID, list[int]] = {}
    for session, seq in house.query(sql):
        stored.setdefault(UUID(str(session)), []).append(seq)
    for agent, known, last in zip(fleet.agents, before, after, strict=True):
        kept = stored.get(agent.session_id, [])
        lost = known - set(kept)
        later = set(kept) - last - {max(last, default=-1) + 1}
        found.lost += len(lost)
        found.doubled += len(kept) - len(set(kept))
        if lost or later or len(kept) != len(set(kept)):
            found.problems.append(f"{agent.session_id}: {sorted(kept)} for {sorted(known)}")


def _audit(house: House, fleet: Fleet, found: Figures) -> None:
    from tests.faults import audit
    from tests.faults.schedule import Plan, Schedule
    from tests.running_service import wait_until

    schedule = Schedule(0, [], [], [Plan(agent, []) for agent in fleet.agents])
    waiting = "SELECT COUNT(*) FROM analysis_analysis WHERE NOT (is_final AND done >= wanted)"
    try:
        wait_until(lambda: house.query(waiting) == [(0,)], ANALYSED_SECONDS, "all is analysed")
    except AssertionError as error:
        found.problems.append(str(error))
    found.add(audit.of_samples(house, schedule))
    found.add(audit.of_costs(house, [schedule]))


def _report(
    found: Figures,
    fleet: Fleet,
    acknowledged: tuple[list[set[int]], list[set[int]]],
    asked: argparse.Namespace,
) -> int:
    before, after = (sum(map(len, each)) for each in acknowledged)
    measured = (
        f"{asked.nodes} nodes, {before:,} segments before, {after - before:,} during the backup: "
        f"{found.lost} lost, {found.doubled} doubled, {found.wrong_costs} of {found.costs} costs "
        "wrong"
    )
    answers = ", ".join(f"{name} {count}" for name, count in sorted(fleet.told.answers.items()))
    print(f"seed {asked.seed} on {asked.database}: {measured}; answers: {answers}")
    if after == before:
        found.problems.append("nothing was written during the backup")
    for problem in found.problems:
        print(f"Broken: {problem}")
    counts = {"lost": found.lost, "doubled": found.doubled}
    note(
        "backups",
        measured,
        not found.problems,
        **counts,
        costs=found.costs,
        wrong_costs=found.wrong_costs,
    )
    return int(asked.check and bool(found.problems))


if __name__ == "__main__":
    sys.exit(main())
