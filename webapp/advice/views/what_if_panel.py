"""A question about a run and its answer, for the pages that show them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from django.http import QueryDict

from advisor.sizing.candidates import Candidate
from webapp.advice.forms import OPTIONS, WhatIfForm
from webapp.advice.selectors.front import drawing
from webapp.advice.selectors.savings import RUNGS
from webapp.advice.selectors.what_if import UnanswerableError, WhatIf, what_if_of
from webapp.runs.models import Run

MOST_REASONS, MOST_NAMED = 8, 3


@dataclass(frozen=True)
class CandidateRow:
    """Machine that fits, or the run's own. `difference_usd` is its cost minus that of the present
    one.
    """

    each: Candidate
    rung: str
    difference_usd: Decimal | None


@dataclass(frozen=True)
class WhyNot:
    """Machines that can't do the work, for one reason."""

    reason: str
    count: int
    names: list[str]
    """The names of the cheapest of them."""


def panel(run: Run, query: QueryDict, most_rows: int) -> dict[str, object]:
    """Return what the templates of the question and the answer need."""
    form = WhatIfForm(query)
    context: dict[str, object] = {"run": run, "form": form, "options": OPTIONS}
    if not form.is_valid():
        return context
    try:
        found = what_if_of(run, form.question(), takes_recorded_checkpoint=True)
    except UnanswerableError as error:
        return context | {"missing": error, "instead": _instead_of(run)}
    return context | _answered(found, most_rows)


def _instead_of(run: Run) -> Run | None:
    """Return the job's last finished run, if this one can't be asked about because it isn't
    finished.
    """
    if run.state == Run.FINISHED and not run.is_probe:
        return None
    finished = run.job.compared_runs.filter(state=Run.FINISHED)
    return finished.order_by("-started_at").first()


def _answered(found: WhatIf, most_rows: int) -> dict[str, object]:
    answer, present, chosen = found.answer, found.present, found.answer.chosen
    fitting = [each for each in answer.table if not each.rejected_because]
    shown = fitting[:most_rows]
    if present is not None and present not in shown:
        shown.append(present)
    return {
        "answer": answer,
        "present": present,
        "chosen": chosen,
        "chosen_rung": RUNGS[found.rung(chosen)] if chosen is not None else "",
        "change_usd": _difference(chosen, present) if chosen is not None else None,
        "rows": [
            CandidateRow(each, RUNGS[found.rung(each)], _difference(each, present))
            for each in shown
        ],
        "fitting_count": len(fitting),
        "why_not": list(_why_not(answer.table))[:MOST_REASONS],
        "drawing": drawing(answer.table, answer.front, chosen, present, found.rung),
    }


def _difference(each: Candidate, present: Candidate | None) -> Decimal | None:
    """Return the difference; None if one of them has no price, or it is the present one."""
    if present is None or each is present:
        return None
    now, then = present.cost_mid_usd, each.cost_mid_usd
    return None if now is None or then is None else then - now


def _why_not(table: Iterable[Candidate]) -> Iterable[WhyNot]:
    """Yield the reasons of those that don't fit, the most frequent first. Each machine is counted
    once.
    """
    names: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for each in table:
        if each.rejected_because:
            names[each.rejected_because][f"{each.node_count} × {each.instance_type}"] = None
    for reason, found in sorted(names.items(), key=lambda item: -len(item[1])):
        yield WhyNot(reason, len(found), list(found)[:MOST_NAMED])
