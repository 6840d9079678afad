"""The columns of the list of jobs, on the page and in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from webapp.dashboard.selectors.jobs import JobRow


@dataclass(frozen=True)
class JobField:
    """A column of the file of jobs, and what stands there for a job."""

    name: str
    value: Callable[[JobRow], object]


@dataclass(frozen=True)
class JobColumn:
    """A column of the page, and the columns of the file that say the same.

    Attributes:
        key: its name in the URL that sorts by it, and its template in `dashboard/job_cells`.
        order: the figures that it is sorted by; with `-` the highest first.
        has_total: True if the template also shows the total of all jobs.
    """

    key: str
    title: str
    order: tuple[str, ...]
    fields: tuple[JobField, ...] = ()
    is_number: bool = False
    has_total: bool = False

    @property
    def template(self) -> str:
        return f"dashboard/job_cells/{self.key}.html"

    def direction(self, sort: str) -> str:
        """Return `ascending` or `descending` if the list that is sorted so is sorted by this
        column, else nothing.
        """
        if sort.removeprefix("-") != self.key:
            return ""
        is_up = self.order[0].startswith("-") == sort.startswith("-")
        return "ascending" if is_up else "descending"

    def next_sort(self, sort: str) -> str:
        """Return the `sort` of the URL that sorts by this column, or turns the order."""
        return f"-{self.key}" if sort == self.key else self.key


def _tags(row: JobRow) -> str:
    return ", ".join(f"{key}={value}" for key, value in row.tags.items())


NAME = JobColumn(
    "name",
    "Job",
    ("name",),
    (
        JobField("job", lambda row: row.job.name),
        JobField("owner", lambda row: row.owner),
        JobField("tags", _tags),
    ),
)
LAST = JobColumn(
    "last",
    "Last run",
    ("-last_at",),
    (
        JobField("last_run_at", lambda row: row.last_run and row.last_run.began_at),
        JobField("last_run_state", lambda row: row.last_run and row.last_run.state),
    ),
)
VERDICT = JobColumn(
    "verdict",
    "Verdict",
    ("-regression_usd", "-last_change"),
    (
        JobField("last_verdict", lambda row: row.verdict and row.verdict.title),
        JobField("open_regression_usd", lambda row: row.regression and row.regression.extra_usd),
    ),
)
RUNS = JobColumn(
    "runs",
    "Runs",
    ("-run_count",),
    (JobField("runs", lambda row: row.run_count),),
    is_number=True,
    has_total=True,
)
SPEND = JobColumn(
    "spend",
    "Spend, 30 days",
    ("-spend_usd",),
    (
        JobField("spend_30_days_usd", lambda row: row.spend_usd),
        JobField("runs_without_price_30_days", lambda row: row.unpriced_count),
    ),
    is_number=True,
    has_total=True,
)
COST = JobColumn(
    "cost",
    "Last cost",
    ("-last_usd",),
    (JobField("last_cost_usd", lambda row: row.last_run and row.last_run.cost_usd),),
    is_number=True,
)
SAVING = JobColumn(
    "saving",
    "Saving a month",
    ("-saving_usd",),
    (JobField("open_saving_month_usd", lambda row: row.saving_usd),),
    is_number=True,
    has_total=True,
)
TREND = JobColumn("trend", "Cost trend", ("-last_change",))

COLUMNS = (NAME, LAST, VERDICT, RUNS, SPEND, COST, SAVING, TREND)
"""The columns of the page, from the left."""
COLUMN_BY_KEY = {column.key: column for column in COLUMNS}
FIELDS = tuple(
    field for column in (NAME, RUNS, SPEND, LAST, COST, SAVING, VERDICT) for field in column.fields
)
"""The columns of the file, from the left: programs may count on the order."""
