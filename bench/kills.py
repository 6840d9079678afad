"""Kills workers while they work, and proves that each run is there once and complete.

    python -m bench.kills --check                    100 kills
    python -m bench.kills --kills 1 --seed 17        one of them again

Runs are uploaded to a real service, and files to be imported. Once a worker has claimed one, it is
killed (`kill -9`) after a random part of the time that the work takes undisturbed: the whole worker
with all its processes, or only the one that works. The row's lease is then ended, as if its time
were over. Afterwards every sample must be readable once, every cost must equal a fresh count, every
import must equal one that nobody disturbed, and no file may be left of any of them. With --check it
exits with 1 if that isn't so.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.figures import note

if TYPE_CHECKING:
    from tests.faults.house import House

FIRST_WORK_SECONDS, WORK_SECONDS = 60, 240
LOOK_SECONDS = 0.002
SWEEP_SECONDS = 180
MOST_MISSED = 200
"""Work that ended before the kill. Small imports do so often."""


@dataclass
class Figures:
    """The counts of what was done, and what is wrong, each with the seed of its kill."""

    kills: dict[str, int] = field(default_factory=dict)
    missed: int = 0
    runs: int = 0
    lost: int = 0
    doubled: int = 0
    costs: int = 0
    wrong_costs: int = 0
    left_files: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def killed(self) -> int:
        return sum(self.kills.values())

    def killed_at(self, work: str) -> int:
        """Return how many were killed while they did this work."""
        return sum(count for name, count in self.kills.items() if name.startswith(f"{work},"))


class Killer:
    """Kills the workers of one service while they work."""

    def __init__(self, house: House, folder: Path, figures: Figures) -> None:
        from bench.kills_work import Analyses, Imports

        self.house, self.figures = house, figures
        self.works = [Analyses(house), Imports(house, folder)]

    def kill(self, seed: int) -> bool:
        """Disturb one piece of work. False if it had ended before the kill."""
        chance = random.Random(seed)
        work = self.works[seed % len(self.works)]
        run_id = work.upload(chance)
        self._wait(lambda: work.is_held(run_id), FIRST_WORK_SECONDS, f"seed {seed}: no claim")
        time.sleep(chance.uniform(0, work.usual_seconds))
        victim = chance.choice(["worker", "process"])
        self._kill(victim)
        is_hit = work.is_held(run_id)
        if is_hit:
            name = f"{work.name}, {victim}"
            self.figures.kills[name] = self.figures.kills.get(name, 0) + 1
            work.end_lease(run_id)
        done = self._wait(
            lambda: work.is_done(run_id), WORK_SECONDS, f"seed {seed}: {work.name} isn't done"
        )
        if done:
            self.figures.problems += [f"seed {seed}: {each}" for each in work.differences(run_id)]
        return is_hit

    def finish(self) -> None:
        """Import again: what killed workers have left is swept then."""
        imports = self.works[-1]
        run_id = imports.upload(random.Random(0))
        if self._wait(lambda: imports.is_done(run_id), WORK_SECONDS, "the last import isn't done"):
            self.figures.problems += imports.differences(run_id)

    def audit(self) -> None:
        for work in self.works:
            work.audit(self.figures)

    def _kill(self, victim: str) -> None:
        worker = self.house.service.part("worker")
        if worker is None:
            return
        inner = worker.children(recursive=True)
        victims = [worker, *inner] if victim == "worker" else _busiest(inner)
        for process in victims:
            if process.is_running():
                process.kill()
        psutil.wait_procs(victims, timeout=10)

    def _wait(self, holds, seconds: float, problem: str) -> bool:  # type: ignore[no-untyped-def]
        until = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > until:
                self.figures.problems.append(f"{problem} within {seconds} s")
                return False
            time.sleep(LOOK_SECONDS)
        return True


def _busiest(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the process that works now, by its CPU time, with its own children."""
    used = {}
    for process in processes:
        try:
            used[process] = sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    if not used:
        return []
    time.sleep(0.03)
    gained = {}
    for process, before in used.items():
        try:
            gained[process] = sum(process.cpu_times()[:2]) - before
        except psutil.NoSuchProcess:
            continue
    if not gained:
        return []
    busiest = max(gained, key=lambda process: gained[process])
    try:
        return [busiest, *busiest.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=0, help="of the first kill")
    options.add_argument("--check", action="store_true")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-kills-") as folder:
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
    from tests.faults.house import house

    figures = Figures()
    scratch = {"TMPDIR": folder / "temporary", "TRIMTAB_SCRATCH_DIR": folder / "scratch"}
    for place in scratch.values():
        place.mkdir()
    with house(more={name: str(place) for name, place in scratch.items()}) as made:
        killer = Killer(made, folder, figures)
        _kill_all(killer, asked)
        killer.finish()
        killer.audit()
        places = [*scratch.values(), made.data_dir / "imports"]
        figures.left_files = _left_files(places, figures)
    return _report(figures, asked)


def _kill_all(killer: Killer, asked: argparse.Namespace) -> None:
    """Kill as many at each work. What had ended before its kill is disturbed again later."""
    each = -(-asked.kills // len(killer.works))
    for seed in range(asked.seed, asked.seed + asked.kills + MOST_MISSED):
        if killer.figures.killed >= asked.kills:
            return
        if killer.figures.killed_at(killer.works[seed % len(killer.works)].name) >= each:
            continue
        killer.figures.missed += not killer.kill(seed)
        if len(killer.figures.problems) > 20:
            return


def _left_files(places: list[Path], figures: Figures) -> int:
    """Wait for the service to sweep them; return how many are left, which are problems."""
    until = time.monotonic() + SWEEP_SECONDS
    while (left := list(_files(places))) and time.monotonic() < until:
        time.sleep(1)
    if left:
        figures.problems.append(f"{len(left)} files left, such as {left[0]}")
    return len(left)


def _files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        for path in place.rglob("*") if place.is_dir() else ():
            if path.is_file():
                yield path


def _report(figures: Figures, asked: argparse.Namespace) -> int:
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(figures.kills.items()))
    measured = (
        f"{figures.killed} kills of {figures.runs} runs: {figures.lost} lost, {figures.doubled} "
        f"doubled, {figures.wrong_costs} of {figures.costs} costs wrong, {figures.left_files} "
        "files left"
    )
    print(f"from seed {asked.seed}: {measured} ({kinds}; {figures.missed} too late)")
    if figures.killed < asked.kills:
        figures.problems.append(f"only {figures.killed} of {asked.kills} kills came in time")
    for problem in figures.problems:
        print(f"Broken: {problem}")
    counts = {"lost": figures.lost, "doubled": figures.doubled}
    counts |= {"costs": figures.costs, "wrong_costs": figures.wrong_costs}
    note("working_workers", measured, not figures.problems, **counts)
    return int(asked.check and bool(figures.problems))


if __name__ == "__main__":
    sys.exit(main())
