"""The server time of the pages of a job with many runs.

    python -m bench.history [--runs 10000] [--check]

Creates a workspace with one job of that many analysed runs, and a tenth as many runs of other jobs,
in its own SQLite database. Requests each page through Django's handler, signed in, and prints the
median CPU time (with the database's work) and wall time, which depends on the machine's load.
Nothing is cached. `--check` exits with 1 if a page needs 200 ms of CPU time or more.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal

from bench.figures import note
from bench.own_service import own_service
from bench.run_rows import make_runs

MOST_SECONDS = 0.2
TIMES = 7


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with own_service("history"):
        slow = list(_measured(_History(arguments.runs)))
    note("pages", "; ".join(slow) or "each of them", not slow)
    for line in slow:
        print(f"NOT KEPT: {line}")
    return 1 if arguments.check and slow else 0


class _History:
    """The rows, and a signed-in client."""

    def __init__(self, count: int) -> None:
        from django.test import Client

        from webapp.accounts.models import Membership, Token, User, Workspace
        from webapp.runs.models import Job
        from webapp.spend.models import Budget

        self.workspace = Workspace.objects.create(name="History", time_zone="Europe/Berlin")
        user = User.objects.create_user("ada@example.org")
        Membership.objects.create(workspace=self.workspace, user=user, role=Membership.OWNER)
        self.job = Job.objects.create(workspace=self.workspace, name="nightly/train.py")
        Budget.objects.create(workspace=self.workspace, amount_usd=Decimal(5000))
        Budget.objects.create(workspace=self.workspace, job=self.job, amount_usd=Decimal(90))
        self.runs = make_runs([self.job], count)
        names = [f"other-{number}.py" for number in range(count // 1000)]
        others = [Job(workspace=self.workspace, name=name, key=name) for name in names]
        make_runs(Job.objects.bulk_create(others), 100)
        self.client = Client(SERVER_NAME="localhost")
        self.client.force_login(user)
        self.token = Token.make(self.workspace, "script", [Token.READ])[1]

    def page(self, address: str) -> Callable[[], None]:
        def ask() -> None:
            answer = self.client.get(address)
            if answer.status_code != 200:
                raise SystemExit(f"{address} answered {answer.status_code}")

        return ask

    def what_if(self) -> None:
        """Ask for two regions and two ways to buy, of the newest run."""
        asked = {"regions": ["us-east-1", "us-west-2"], "options": ["on_demand", "spot"]}
        address = f"/api/v1/runs/{self.runs[-1].pk}/what-if"
        bearer = {"Authorization": f"Bearer {self.token}"}
        answer = self.client.post(address, asked, content_type="application/json", headers=bearer)
        if answer.status_code != 200:
            raise SystemExit(f"{address} answered {answer.status_code}: {answer.content!r}")


def _measured(history: _History) -> Iterator[str]:
    """Prints each page's times. Yields the pages that take too long."""
    print(f"{'':34}{'processor':>10}{'clock':>10}")
    for name, ask in _questions(history):
        ask()
        times = [_timed(ask) for _ in range(TIMES)]
        processor, clock = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:34}{1000 * processor:7.0f} ms{1000 * clock:7.0f} ms", flush=True)
        if processor >= MOST_SECONDS:
            yield f"{name} takes {1000 * processor:.0f} ms"


def _questions(history: _History) -> Iterator[tuple[str, Callable[[], None]]]:
    from django.db import transaction

    from webapp.analysis.successive import verdicts

    runs, job = history.runs, history.job
    newest, middle = runs[-1], runs[len(runs) // 2]

    def judge() -> None:
        with transaction.atomic():
            verdicts.judge_run(newest)

    pages = len(runs) // 50
    yield "the home page", history.page("/")
    yield "the jobs", history.page("/jobs/")
    yield "the runs", history.page("/runs/")
    yield "the job", history.page(f"/jobs/{job.uuid}/")
    yield "the job, its last page", history.page(f"/jobs/{job.uuid}/?page={pages}")
    yield "its newest run", history.page(f"/runs/{newest.pk}/")
    yield "a run in the middle", history.page(f"/runs/{middle.pk}/")
    yield "what if its newest run", history.what_if
    yield "a comparison", history.page(f"/compare/?a={middle.pk}&b={newest.pk}")
    yield "the verdict on the newest run", judge
    yield "the month's spend", history.page("/spend/")
    yield "the month's spend by tag", history.page("/spend/?by=tag&key=team")
    yield "a year's spend by month", history.page("/spend/?by=month")
    yield "the budgets", history.page("/budgets/")
    yield "the recommendations", history.page("/recommendations/")
    yield "the savings", history.page("/savings/")


def _timed(ask: Callable[[], None]) -> tuple[float, float]:
    """Return CPU and wall seconds."""
    began = time.process_time(), time.perf_counter()
    ask()
    return time.process_time() - began[0], time.perf_counter() - began[1]


if __name__ == "__main__":
    sys.exit(main())
