"""What if: a run on other machines, bought otherwise or elsewhere. It changes nothing."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.advice.forms import DEADLINE, FASTEST, OPTIONS, WhatIfForm
from webapp.advice.selectors.front import drawing
from webapp.advice.selectors.savings import RUNGS
from webapp.advice.selectors.what_if import MissingError, WhatIf, what_if_of
from webapp.runs import scope

MOST_ROWS = 30


@require_safe
def what_if(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """The question is in the address; without one, as the run was but on the cheapest machines."""
    run = scope.run_or_404(request.workspace, run_id)
    run.workspace = request.workspace
    form = WhatIfForm(request.GET)
    context: dict[str, object] = {"run": run, "form": form, "options": OPTIONS}
    context |= {"needs_usd": FASTEST, "needs_deadline": DEADLINE}
    if form.is_valid():
        try:
            found = what_if_of(run, form.question(), takes_recorded_checkpoint=True)
        except MissingError as error:
            context |= {"missing": error}
        else:
            context |= _answered(found)
    return render(request, "advice/what_if.html", context)


def _answered(found: WhatIf) -> dict[str, object]:
    answer, present = found.answer, found.present
    chosen = answer.chosen
    rows = [(each, RUNGS[found.rung(each)]) for each in answer.table[:MOST_ROWS]]
    change_usd: Decimal | None = None
    if chosen is not None and present is not None:
        now, then = present.cost_mid_usd, chosen.cost_mid_usd
        change_usd = None if now is None or then is None else then - now
    return {
        "answer": answer,
        "present": present,
        "chosen": chosen,
        "chosen_rung": RUNGS[found.rung(chosen)] if chosen is not None else "",
        "change_usd": change_usd,
        "rows": rows,
        "any_rejected": any(each.rejected_because for each, _ in rows),
        "drawing": drawing(answer.table, answer.front, chosen, present),
    }
