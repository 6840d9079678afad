"""Lists the missing parts of a report, and the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from webapp.dashboard.report.drawn import ReportDrawings
from webapp.dashboard.report.figures import UsageRow
from webapp.dashboard.report.operators import OperatorTable
from webapp.dashboard.selectors.run import RunPage
from webapp.imports.selectors import ImportLine

NOT_RECORDED = "Not recorded: how long each batch took to load, beyond the wait for it."


def list_missing(
    page: RunPage, drawn: ReportDrawings, usage: Iterable[UsageRow], operators: OperatorTable
) -> Iterator[str]:
    """Yield what is missing, besides the rules that lack data."""
    yield from _of_analysis(page)
    yield from _of_samples(page, drawn)
    if not operators.categories:
        yield "No trace was imported: the time of single CPU and GPU operators is unknown."
    unmeasured = sorted({row.quantity for row in usage if not row.is_measured})
    if unmeasured:
        yield f"Not measured on every node: {', '.join(unmeasured)}."
    yield from page.machine_doubts
    yield from _of_imports(page.imports)
    yield NOT_RECORDED


def _of_analysis(page: RunPage) -> Iterator[str]:
    if page.run.cost_usd is None:
        yield f"No price. {'; '.join(page.no_price_reasons)}".strip()
    if page.error:
        yield "The last analysis failed; the figures are from the one before."
    elif not page.judged:
        yield "The run isn't analysed yet: there are no verdicts."
    if page.missing_segments:
        yield f"Uploads of ended sessions that haven't arrived: {page.missing_segments}."
    if page.expired_uploads:
        yield f"Uploads that were refused, and deleted on the machine: {page.expired_uploads}."
    if page.too_large:
        yield f"The run is too large to judge: it has {page.too_large}."


def _of_samples(page: RunPage, drawn: ReportDrawings) -> Iterator[str]:
    unreadable = max(page.unreadable, drawn.unreadable)
    if unreadable:
        yield f"Stored objects that can't be read: {unreadable}."
    if drawn.trouble:
        yield drawn.trouble
        return
    if not drawn.charts:
        yield f"No samples to draw: {_why(page)}."
    if not drawn.steps.rows:
        yield "No training steps were recorded: the time of steps and of the loop is unknown."
    if drawn.devices.trouble:
        yield drawn.devices.trouble
    yield from _left_out(drawn)


def _left_out(drawn: ReportDrawings) -> Iterator[str]:
    counted = (
        (
            drawn.more_nodes,
            "nodes aren't drawn: charts and tables begin with those that findings name",
        ),
        (drawn.more_gpus, "GPUs of these nodes aren't drawn or listed"),
        (drawn.devices.more_cores, "cores of these nodes aren't listed"),
        (drawn.steps.more, "ranks and phases aren't listed"),
    )
    for count, words in counted:
        if count:
            yield f"{count:,} more {words}."


def _why(page: RunPage) -> str:
    deleted = page.run.samples_deleted_at
    return f"deleted on {deleted:%Y-%m-%d} by the retention settings" if deleted else "none arrived"


def _of_imports(imports: Sequence[ImportLine]) -> Iterator[str]:
    for line in imports:
        yield from line.notes
        for each in line.skipped:
            where = f", the first in {each['first']}" if each.get("first") else ""
            yield f"Not imported: {each['count']:,} {each['what']} ({each['why']}){where}."
