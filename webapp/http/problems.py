"""Errors of the API as problem+json (RFC 9457): what is wrong, in which field, and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from trimtab.wire import PROBLEM_TYPE

from webapp.http import problem_types

API_PATH = "/api/"
CONTENT_TYPE = PROBLEM_TYPE
_OWN_FORMS = (CONTENT_TYPE, "application/json")
"""The content types of errors that an operation answered itself: MLflow's clients know another
form."""
SCHEMA = {
    "title": "Problem",
    "description": "Why the answer is not 2xx (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {
            "type": "string",
            "format": "uri",
            "description": "The kind of problem: its page.",
        },
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong."},
        "field": {"type": "string", "description": "Where: a field, parameter or header."},
        "fix": {"type": "string", "description": "What to do about it."},
    },
}


class Problem(Exception):  # noqa: N818 - the standard's own word
    """An error answer (not 2xx) with its reason."""

    def __init__(
        self,
        status: int,
        detail: str,
        field: str = "",
        fix: str = "",
        headers: dict[str, str] | None = None,
        kind: str = "",
    ) -> None:
        """Create a problem. `kind` is the name of its type, by default the general one of its
        status.
        """
        super().__init__(detail)
        self.status, self.detail, self.field, self.fix = status, detail, field, fix
        self.headers = headers or {}
        self.type = problem_types.BY_NAME[kind] if kind else problem_types.find_general_type(status)

    @property
    def document(self) -> dict[str, Any]:
        body = {
            "type": self.type.uri,
            "title": self.type.title,
            "status": self.status,
            "detail": self.detail,
            "field": self.field,
            "fix": self.fix,
        }
        return {key: value for key, value in body.items() if value != ""}

    def response(self) -> HttpResponse:
        return JsonResponse(
            self.document,
            status=self.status,
            content_type=CONTENT_TYPE,
            headers=self.headers,
        )


def server_error() -> Problem:
    return Problem(500, "Server error. The cause is in the web server's log.")


def no_token() -> Problem:
    fix = "Send `Authorization: Bearer TOKEN` with a valid token."
    return Problem(401, "No valid token.", "Authorization", fix)


class ApiProblemsMiddleware:
    """Answers of the API that never reached an operation (no such address, wrong method, a crash)
    are problems like those of operations."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self.get_response(request)
        plain = answer.status_code < 400 or answer.headers.get("Content-Type") in _OWN_FORMS
        if plain or not request.path_info.startswith(API_PATH):
            return answer
        allowed = {"Allow": answer.headers["Allow"]} if "Allow" in answer.headers else {}
        return _general(answer.status_code, allowed).response()


def _general(status: int, headers: dict[str, str]) -> Problem:
    if status == 500:
        return server_error()
    details = {
        404: "There is nothing at this URL.",
        405: f"This address takes {headers.get('Allow', 'other methods')} only.",
    }
    fix = "See /api/v1/openapi.json." if status < 500 else ""
    detail = details.get(status, "Invalid request.")
    return Problem(status, detail, fix=fix, headers=headers)


def handle_in(api: NinjaAPI) -> None:
    """Answer every error of `api` as problem+json."""

    @api.exception_handler(Problem)
    def _problem(_request: HttpRequest, error: Problem) -> HttpResponse:
        return error.response()

    @api.exception_handler(AuthenticationError)
    def _unauthenticated(_request: HttpRequest, _error: Any) -> HttpResponse:
        return no_token().response()

    @api.exception_handler(Http404)
    def _missing(_request: HttpRequest, _error: Any) -> HttpResponse:
        return Problem(404, "Not found in this workspace.").response()

    @api.exception_handler(RequestDataTooBig)
    def _too_big(_request: HttpRequest, error: Any) -> HttpResponse:
        return Problem(413, str(error), "body", "Send a smaller body.").response()

    @api.exception_handler(HttpError)
    def _unreadable(_request: HttpRequest, error: HttpError) -> HttpResponse:
        return Problem(error.status_code, str(error), "body", "See the API description.").response()

    @api.exception_handler(ValidationError)
    def _invalid(_request: HttpRequest, error: ValidationError) -> HttpResponse:
        first = error.errors[0]
        field = ".".join(str(part) for part in first["loc"])
        return Problem(422, first["msg"], field, "See the API description.").response()


@require_safe
def problem_page(request: HttpRequest) -> HttpResponse:
    """Shows the types of problems, which each refusal links to, and nothing of any workspace: a
    person who debugs an agent may have no account.
    """
    return render(request, "problems.html", {"types": problem_types.TYPES})
