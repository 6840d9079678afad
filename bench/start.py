"""The start of the service and what it needs at rest: seconds, CPU seconds and memory.

    python -m bench.start            prints the figures
    python -m bench.start --check    exits with 1 if a promise is broken
    python -m bench.start --seconds 15
                                     rests for so long, of the minute that the promise is about

The second start on a folder is measured: it finds rows and static files up to date. Memory is the
proportional share (PSS) of all processes: supervisor, web server, worker with its children, beat
and Redis. CPU seconds hold on a busy machine, the time until it is ready only on an idle one; so
the time that this Python needs to load Django is measured beside it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.figures import note
from tests.running_service import MARKS, Service

MOST_SECONDS, MOST_MB, MOST_IDLE_PCT = 5.0, 450.0, 5.0
"""The promises; the last one of one core."""
MOST_DJANGO_STARTS = 30.0
"""CPU seconds until it is ready, as a multiple of those that importing Django's ORM takes."""
LOOKS_SECONDS = (0.0, 15.0, 60.0)
DJANGO = "import django.db.models, django.template, django.urls, django.http"


@dataclass(frozen=True)
class Look:
    """A look at all processes, by name."""

    cpu_seconds: dict[str, float]
    pss_mb: dict[str, float]

    @property
    def all_cpu_seconds(self) -> float:
        return sum(self.cpu_seconds.values())

    @property
    def all_mb(self) -> float:
        return sum(self.pss_mb.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seconds", type=float, default=LOOKS_SECONDS[-1])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-start-") as folder:
        first = Service(Path(folder)).start()
        first.stop()
        again, began = Service(Path(folder), first.port), time.monotonic()
        again.start()
        seconds = time.monotonic() - began
        looks = _looks(again, asked.seconds)
        again.stop()
    return _judged(seconds, looks, asked.seconds, asked.check)


def _looks(service: Service, seconds: float) -> list[Look]:
    """Take a look at the start, and after each of the times that are asked for."""
    began, looks = time.monotonic(), []
    for at in LOOKS_SECONDS:
        if at <= seconds:
            time.sleep(max(0.0, began + at - time.monotonic()))
            looks.append(_look(service))
            _show(at, looks[-1])
    return looks


def _look(service: Service) -> Look:
    cpu_seconds: dict[str, float] = {}
    pss_mb: dict[str, float] = {}
    for process in service.tree():
        name = _name(service, process)
        times = process.cpu_times()
        cpu_seconds[name] = cpu_seconds.get(name, 0.0) + times.user + times.system
        pss_mb[name] = pss_mb.get(name, 0.0) + process.memory_full_info().pss / 1e6
    return Look(cpu_seconds, pss_mb)


def _name(service: Service, process: psutil.Process) -> str:
    if process.pid == service.process.pid:
        return "supervisor"
    of_supervisor = {part.pid: name for name in MARKS if (part := service.part(name))}
    return of_supervisor.get(process.pid, "worker's pool")


def _show(at: float, look: Look) -> None:
    print(f"{at:.0f} s after it is ready: {look.all_mb:.0f} MB, {look.all_cpu_seconds:.1f} CPU-s")
    for name, megabytes in look.pss_mb.items():
        print(f"    {name:14} {megabytes:6.0f} MB {look.cpu_seconds[name]:6.2f} CPU-s")


def _judged(seconds: float, looks: list[Look], rested: float, check: bool) -> int:
    first, last = looks[0], looks[-1]
    django_seconds = _django_cpu_seconds()
    starts = first.all_cpu_seconds / django_seconds
    used = last.all_cpu_seconds - first.all_cpu_seconds
    idle_pct = 100 * used / rested if len(looks) > 1 else 0.0
    print(f"ready again after {seconds:.1f} s")
    print(f"{first.all_cpu_seconds:.1f} CPU-s, {starts:.0f} times {django_seconds:.2f} of Django")
    print(f"at rest {idle_pct:.1f} % of a core")
    broken = [
        words
        for words, is_broken in (
            (f"ready after {seconds:.1f} s, over {MOST_SECONDS:g}", seconds > MOST_SECONDS),
            (f"{last.all_mb:.0f} MB, over {MOST_MB:g}", last.all_mb > MOST_MB),
            (
                f"{starts:.0f} starts of Django, over {MOST_DJANGO_STARTS:g}",
                starts > MOST_DJANGO_STARTS,
            ),
            (f"{idle_pct:.1f} % of a core, over {MOST_IDLE_PCT:g}", idle_pct > MOST_IDLE_PCT),
        )
        if is_broken
    ]
    for words in broken:
        print(f"BROKEN: {words}")
    measured = f"{last.all_mb:.0f} MB after {rested:.0f} s, ready in {seconds:.1f} s"
    note("start", f"{measured}, {first.all_cpu_seconds:.1f} CPU-s", not broken)
    return int(check and bool(broken))


def _django_cpu_seconds() -> float:
    """Return the least of some, because other load only adds to it."""
    code = f"import time; {DJANGO}; print(time.process_time())"
    words = [sys.executable, "-c", code]
    told = [subprocess.check_output(words, text=True) for _ in range(5)]
    return min(map(float, told))


if __name__ == "__main__":
    sys.exit(main())
