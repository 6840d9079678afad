"""Errors in MLflow's form: `{"error_code": ..., "message": ...}`.

https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

from __future__ import annotations

from collections.abc import Mapping

from django.http import JsonResponse

from webapp.http.problems import Problem

_STATUSES = {
    "BAD_REQUEST": 400,
    "INVALID_PARAMETER_VALUE": 400,
    "RESOURCE_ALREADY_EXISTS": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "ENDPOINT_NOT_FOUND": 404,
    "RESOURCE_DOES_NOT_EXIST": 404,
    "RESOURCE_CONFLICT": 409,
    "RESOURCE_LIMIT_EXCEEDED": 413,
    "REQUEST_LIMIT_EXCEEDED": 429,
    "INTERNAL_ERROR": 500,
    "TEMPORARILY_UNAVAILABLE": 503,
}
_CODES = {status: code for code, status in reversed(_STATUSES.items())} | {
    400: "INVALID_PARAMETER_VALUE",
    404: "RESOURCE_DOES_NOT_EXIST",
}


class MlflowError(Exception):
    """An error answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    def response(self) -> JsonResponse:
        return _response(_STATUSES[self.code], self.code, self.message, {})


def invalid_parameter(message: str) -> MlflowError:
    return MlflowError("INVALID_PARAMETER_VALUE", message)


def missing_resource(message: str) -> MlflowError:
    return MlflowError("RESOURCE_DOES_NOT_EXIST", message)


def from_problem(problem: Problem) -> JsonResponse:
    """Return the problem's reason, fix and status in MLflow's form."""
    code = _CODES.get(problem.status, "BAD_REQUEST" if problem.status < 500 else "INTERNAL_ERROR")
    message = " ".join(part for part in (problem.detail, problem.fix) if part)
    return _response(problem.status, code, message, problem.headers)


def _response(status: int, code: str, message: str, headers: Mapping[str, str]) -> JsonResponse:
    document = {"error_code": code, "message": message}
    return JsonResponse(document, status=status, headers=dict(headers))
