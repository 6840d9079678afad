"""The server time and queries of every page that a person can open.

    python -m bench.pages                     1,000 jobs of 20 runs; takes some minutes
    python -m bench.pages --jobs 100          fewer of them
    python -m bench.pages --only-table        only the table of 100,000 runs
    python -m bench.pages --profile NAME      where the time of one page goes
    python -m bench.pages --check             exits with 1 if a page is too slow

The pages are found from the URL configuration, as their owner sees them. One run is of 8 GPUs, 24 h
long, with a sample every 0.5 s, and one of 64 nodes of 8 GPUs, an hour long. Each page is requested
through Django's handler; nothing is cached.
Figures are CPU time, with the database's own work, since it is SQLite. The report of the long run
reads the samples of every GPU: it may take longer, and its memory is measured, too.
"""

from __future__ import annotations

import argparse
import cProfile
import html
import pstats
import re
import statistics
import sys
import time
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.busy_workspace import BusyWorkspace
from bench.figures import note
from bench.many_runs import ManyRuns
from bench.own_service import own_service

MOST_SECONDS, MOST_QUERIES, TIMES = 0.15, 25, 5
MOST_EXPORT_SECONDS = 1.0
"""The most seconds of a CSV file with every row of the workspace."""
MOST_POLL_SECONDS, POLLED = 0.02, ("dashboard:home", "dashboard:jobs", "dashboard:run")
"""The most seconds of an open page that asks whether anything has changed, while nothing has."""
REPORT = "dashboard:report, of a day"
MOST_REPORT_SECONDS, MOST_REPORT_MIB = 2.0, 150
NOBODY_KNOWS = "no-such-secret"
"""A secret in an address, for what no row of the workspace gives."""
MORE = {
    "dashboard:jobs, by owner": "/jobs/?group=owner",
    "dashboard:jobs, by tag": "/jobs/?group=tag:team",
    "dashboard:jobs, of a tag": "/jobs/?tag=team=vision",
    "dashboard:jobs, by spend": "/jobs/?sort=spend",
    "dashboard:jobs, by verdict": "/jobs/?sort=verdict",
    "dashboard:jobs, by cost": "/jobs/?sort=cost",
    "dashboard:jobs, searched": "/jobs/?q=train-77",
    "dashboard:runs, of the last month": "/runs/?days=30&label=data_stall",
    "dashboard:compare, six": "/compare/?{six}",
    "advice:what_if, of regions": "/runs/{run}/what-if/?regions=us-east-1+eu-west-1+us-west-2",
    "spend:spend, by tag": "/spend/?by=tag&key=team",
    "spend:spend, by month": "/spend/?by=month",
    "spend:spend, by owner": "/spend/?by=owner",
}
"""Other forms of some pages."""

OF_CLUSTER = {
    "dashboard:run": "",
    "dashboard:node": "",
    "dashboard:run_charts": "?buckets=340",
    "dashboard:run_charts, a part": "?buckets=120&first=0",
    "dashboard:run_charts, the last part": "?buckets=120&first=56",
    "dashboard:run_charts, panels": "?buckets=340&panels=sm,tensor,dram",
}
"""The pages of a run of 64 nodes, and what else is added to their addresses."""


@dataclass(frozen=True)
class Row:
    name: str
    seconds: float
    queries: int
    mib: float | None = None
    """Memory at its most, of the report; else not measured."""

    @property
    def is_export(self) -> bool:
        return self.name.endswith("_csv")

    @property
    def is_kept(self) -> bool:
        most = MOST_EXPORT_SECONDS if self.is_export else MOST_SECONDS
        most = MOST_POLL_SECONDS if self.name.endswith(", polled") else most
        most = MOST_REPORT_SECONDS if self.name == REPORT else most
        return self.seconds < most and self.queries <= MOST_QUERIES and self.has_room

    @property
    def figures(self) -> str:
        memory = "" if self.mib is None else f", {self.mib:.0f} MiB"
        return f"{1000 * self.seconds:.0f} ms{memory}"

    @property
    def has_room(self) -> bool:
        return self.mib is None or self.mib <= MOST_REPORT_MIB

    def __str__(self) -> str:
        mark = "" if self.is_kept else "  NOT KEPT"
        memory = "" if self.mib is None else f"{self.mib:9.0f} MiB"
        return f"{self.name:46}{1000 * self.seconds:7.0f} ms{self.queries:9}{memory}{mark}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=20, help="of each job")
    parser.add_argument("--table-runs", type=int, default=100_000)
    parser.add_argument("--only-table", action="store_true")
    parser.add_argument("--profile", metavar="NAME", default="")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with own_service("pages"):
        visits: list[_Pages] = [_TablePages(ManyRuns(arguments.table_runs))]
        if not arguments.only_table:
            visits.insert(0, _WorkspacePages(BusyWorkspace(arguments.jobs, arguments.runs)))
        if arguments.profile:
            return _profile(visits, arguments.profile)
        rows = [row for pages in visits for row in _measured(pages)]
    slow = [row for row in rows if not row.is_kept]
    measured = _told(rows)
    note("every_page", measured, not slow)
    print(measured)
    return 1 if arguments.check and slow else 0


def _told(rows: list[Row]) -> str:
    """Describe the slowest page and the slowest CSV apart: they have different limits."""
    kept = sum(row.is_kept for row in rows)
    pages = [row.seconds for row in rows if row.name != REPORT and not row.is_export]
    exports = [row.seconds for row in rows if row.is_export] or [0.0]
    told = f"{len(rows)} pages, {kept} of them within it; at most {1000 * max(pages):.0f} ms"
    told += f" and {max(row.queries for row in rows)} queries"
    told += f"; a CSV: at most {1000 * max(exports):.0f} ms"
    return told + "".join(f"; report of a day: {row.figures}" for row in rows if row.name == REPORT)


def _measured(pages: _Pages) -> Iterator[Row]:
    print(f"{'':46}{'CPU':>10}{'queries':>9}")
    for name, address in pages.addresses():
        rows = [pages.measure(name, address)]
        if name in POLLED:
            rows.append(pages.measure(f"{name}, polled", address, pages.poll_of(address)))
        for row in rows:
            if row is not None:
                print(row, flush=True)
                yield row


def _profile(visits: list[_Pages], name: str) -> int:
    pages = next(each for each in visits if name in dict(each.addresses()))
    return pages.profile(name)


class _Pages(ABC):
    """Pages, and the browser of the person who opens them."""

    def __init__(self, user: Any) -> None:
        from django.test import Client

        self._client = Client(SERVER_NAME="localhost")
        self._client.force_login(user)

    @abstractmethod
    def addresses(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the address of each page."""

    def poll_of(self, address: str) -> dict[str, str]:
        """Return the headers with which an open page asks for what is new."""
        version = re.search(r'data-version="([^"]*)"', self._client.get(address).content.decode())
        assert version is not None
        return {"Trimtab-Live": "1", "If-None-Match": html.unescape(version[1])}

    def measure(
        self, name: str, address: str, headers: Mapping[str, str] | None = None
    ) -> Row | None:
        """Measure a page, or return None if nothing is at this address, which holds a made-up
        secret.
        """
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        answer = self._client.get(address, headers=headers)
        if answer.status_code != (304 if headers else 200):
            print(f"{name:46}{'answers ' + str(answer.status_code):>10}")
            return None
        with CaptureQueriesContext(connection) as captured:
            self._ask(address, headers)
        queries = len(captured)  # The next request forgets them.
        times = [self._timed(address, headers) for _ in range(TIMES)]
        mib = self._peak_mib(address) if name == REPORT else None
        return Row(name, statistics.median(times), queries, mib)

    def profile(self, wanted: str) -> int:
        address = dict(self.addresses())[wanted]
        self._ask(address)
        profile = cProfile.Profile()
        profile.runcall(self._ask, address)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
        return 0

    def _peak_mib(self, address: str) -> float:
        tracemalloc.start()
        self._ask(address)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / 2**20

    def _timed(self, address: str, headers: Mapping[str, str] | None) -> float:
        began = time.process_time()
        self._ask(address, headers)
        return time.process_time() - began

    def _ask(self, address: str, headers: Mapping[str, str] | None = None) -> None:
        answer = self._client.get(address, headers=headers)
        if answer.streaming:
            for _ in answer.streaming_content:
                pass


class _TablePages(_Pages):
    """The table of runs of a workspace with many."""

    def __init__(self, many: ManyRuns) -> None:
        super().__init__(many.user)
        self._many = many

    def addresses(self) -> Iterator[tuple[str, str]]:
        return self._many.addresses()


class _WorkspacePages(_Pages):
    """Every page of the busy workspace."""

    def __init__(self, busy: BusyWorkspace) -> None:
        super().__init__(busy.user)
        self._busy = busy

    def addresses(self) -> Iterator[tuple[str, str]]:
        from tests.web.walk import AUDIENCES, World, pages

        unknown = re.findall(r"<(?:\w+:)?(\w+)>", " ".join(pages().values()))
        arguments = dict.fromkeys(unknown, NOBODY_KNOWS) | self._arguments()
        world = World(self._busy.workspace, arguments)
        for name, route in pages().items():
            if "get" in AUDIENCES[name]:
                yield name, world.address(name, route)
        long = {"run_id": str(self._busy.long_run.pk)}
        for name in (
            "dashboard:run",
            "dashboard:run_charts",
            "dashboard:report",
            "runs:series_json",
        ):
            yield f"{name}, of a day", world.address(name, pages()[name], long)
        cluster = {"run_id": str(self._busy.cluster_run.pk)}
        for name, more in OF_CLUSTER.items():
            route = name.partition(",")[0]
            yield f"{name}, of 64 nodes", world.address(route, pages()[route], cluster) + more
        six = "&".join(f"run={run.pk}" for run in self._busy.by_job[0][-6:])
        for name, address in MORE.items():
            yield name, address.format(six=six, run=self._busy.by_job[0][-1].pk)

    def _arguments(self) -> dict[str, Any]:
        from webapp.advice.models import Recommendation
        from webapp.service import agent_wheel
        from webapp.spend.models import Budget

        run, other = self._busy.by_job[0][-1], self._busy.by_job[0][-2]
        advised = Recommendation.objects.filter(job=run.job).first()
        budget = Budget.objects.filter(workspace=self._busy.workspace).first()
        return {
            "run_id": run.pk,
            "other_run_id": other.pk,
            "job_uuid": run.job.uuid,
            "recommendation_uuid": advised.uuid if advised else "",
            "budget_uuid": budget.uuid if budget else "",
            "workspace_uuid": self._busy.workspace.uuid,
            "rule_id": "input_bound",
            "instance_type": "g5.xlarge",
            "name": "ledger",
            "wheel_name": agent_wheel.name(),
            "number": run.number,
            "node_number": 1,
        }


if __name__ == "__main__":
    sys.exit(main())
