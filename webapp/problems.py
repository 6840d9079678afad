"""Errors of the API as problem+json (RFC 9457): what is wrong, in which field, and the fix."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, ValidationError


class Problem(Exception):  # noqa: N818 - the standard's own word
    """An answer other than 2xx, with its reason."""

    def __init__(
        self,
        status: int,
        detail: str,
        field: str = "",
        fix: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.field, self.fix = status, detail, field, fix
        self.headers = headers or {}

    def response(self) -> HttpResponse:
        body = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "field": self.field,
            "fix": self.fix,
        }
        body = {key: value for key, value in body.items() if value != ""}
        return JsonResponse(
            body,
            status=self.status,
            content_type="application/problem+json",
            headers=self.headers,
        )


def handle_in(api: NinjaAPI) -> None:
    """Answer every error of `api` as problem+json."""

    @api.exception_handler(Problem)
    def _problem(_request: HttpRequest, error: Problem) -> HttpResponse:
        return error.response()

    @api.exception_handler(AuthenticationError)
    def _unauthenticated(_request: HttpRequest, _error: Any) -> HttpResponse:
        fix = "Send `Authorization: Bearer TOKEN` with a valid token."
        return Problem(401, "No valid token.", "Authorization", fix).response()

    @api.exception_handler(Http404)
    def _missing(_request: HttpRequest, _error: Any) -> HttpResponse:
        return Problem(404, "There is no such thing in this workspace.").response()

    @api.exception_handler(ValidationError)
    def _invalid(_request: HttpRequest, error: ValidationError) -> HttpResponse:
        first = error.errors[0]
        field = ".".join(str(part) for part in first["loc"])
        return Problem(422, first["msg"], field, "See the API description.").response()
