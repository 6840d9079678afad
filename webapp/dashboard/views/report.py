"""The report of a run: for people as a page, for tokens as a file."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.views.decorators.http import require_safe
from ninja import Router

from webapp.accounts.access import PersonRequest, TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.dashboard.report.answer import report_answer
from webapp.http.downloads import attachment_header
from webapp.runs import scope

router = Router(tags=["read"])
_FILE = {
    "responses": {
        200: {"description": "The file", "content": {"text/html": {"schema": {"type": "string"}}}}
    }
}


@require_safe
def report(request: PersonRequest, run_id: UUID) -> HttpResponse:
    run = scope.run_or_404(request.workspace, run_id)
    run.workspace = request.workspace
    return report_answer(run)


@router.get(
    "/runs/{path:run_id}/report.html",
    auth=Bearer(Token.READ, Token.INGEST),
    summary="The report of a run as one HTML file",
    openapi_extra=_FILE,
)
def get_report(request: TokenRequest, run_id: str) -> HttpResponse:
    """Answers the report of a run; `run_id` may be JOB#NUMBER. The file needs no network: style and
    charts are in it. A token with the scope `ingest` but not `read` reads only the runs that it
    uploaded to.
    """
    run = scope.run_called(request.auth, run_id)
    response = report_answer(run)
    response["Content-Disposition"] = attachment_header(f"{run.job.name}-{run.number}-report.html")
    return response
