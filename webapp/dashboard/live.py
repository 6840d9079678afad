"""Pages that keep themselves fresh: a poll is answered with 304 as long as nothing has changed.

Only the requests of `live.js` ask that way. A page that a person opens is always made again: it
also shows what no version here covers, for example the person's own role.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, Count, Exists, Max, QuerySet, Subquery, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified

from webapp.accounts import scope as accounts
from webapp.accounts.models import Workspace
from webapp.advice.scope import recommendations_of
from webapp.analysis.models import Analysis
from webapp.analysis.scope import pending_analyses
from webapp.directives import scope as directives
from webapp.imports.selectors import import_states
from webapp.runs import scope
from webapp.runs.models import Run

POLL = "Trimtab-Live"
"""The header of a poll."""
NO_JOBS = '"no-jobs"'
"""The version of the page that tells how to begin."""
RUN_COLUMNS = (
    "state",
    "ended_at",
    "cost_usd",
    "number",
    "owner",
    "tags",
    "note",
    "is_excluded",
    "is_pinned",
    "billed_usd",
    "training_id",
)


def run_version(run: Run, analysis: Analysis | None) -> str:
    """Return a text that changes with everything that an upload, an analysis, an agent or a person
    changes of the run.
    """
    return _digest(
        [getattr(run, name) for name in RUN_COLUMNS],
        [analysis.done, analysis.done < analysis.wanted, analysis.error] if analysis else [],
        list(recommendations_of(run.workspace).filter(run=run).values_list("pk", "changed_at")),
        [
            (asked.pk, [(answer.pk, answer.outcome) for answer in asked.answers.all()])
            for asked in directives.directives_of(run)
        ],
        [scope.artefacts_of(run).count()],
        import_states(run),
    )


@dataclass(frozen=True)
class WorkspaceState:
    has_jobs: bool
    version: str
    """A text that changes with the runs that run, begin or end, with each analysis that is done,
    and with what people change."""


def workspace_state(workspace: Workspace) -> WorkspaceState:
    """Return the state by one query of a few rows, however many runs there are."""
    runs = scope.runs_of(workspace).select_related(None).order_by()
    running = runs.filter(state=Run.RUNNING)
    state = (
        accounts.workspace_query(workspace)
        .annotate(has_jobs=Exists(scope.jobs_of(workspace)))
        .values_list(
            "has_jobs",
            _figure(running, Count("pk")),
            _figure(running, Sum("cost_usd", output_field=BigIntegerField())),
            _figure(running, Max("ended_at")),
            Subquery(runs.order_by("-created_at").values("pk")[:1]),
            pending_analyses(workspace, Count),
            pending_analyses(workspace, Sum),
            Subquery(accounts.audit_of(workspace).values("pk")[:1]),
        )
        .get()
    )
    return WorkspaceState(state[0], _digest(state) if state[0] else NO_JOBS)


def _figure(runs: QuerySet[Run], figure: Any) -> Subquery:
    """Return a figure of all runs together; NULL if there are none."""
    return Subquery(runs.values("workspace").annotate(figure=figure).values("figure"))


def is_poll(request: HttpRequest) -> bool:
    return POLL in request.headers


def not_changed(request: HttpRequest, version: str) -> HttpResponse | None:
    """Return 304 for a poll that knows this version, or None to make the page."""
    if is_poll(request) and request.headers.get("If-None-Match") == version:
        return HttpResponseNotModified()
    return None


def with_version(request: HttpRequest, answer: HttpResponse, version: str) -> HttpResponse:
    """Add the version to the answer, for the next poll."""
    if is_poll(request):
        answer["ETag"] = version
    return answer


def _digest(*parts: Iterable[Any]) -> str:
    plain = json.dumps(parts, default=str, sort_keys=True).encode()
    return f'"{hashlib.sha256(plain).hexdigest()[:24]}"'
