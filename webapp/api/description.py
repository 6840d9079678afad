"""The API as it describes itself: with each operation, what any operation may answer."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from webapp.http import problems

_ALWAYS = (400, 401, 403, 422, 429)
_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds to wait before the next request.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    }
}


class Api(NinjaAPI):
    """Ninja's API with a complete description."""

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        prefix = self.get_root_path(path_params or {}) if path_prefix is None else path_prefix
        return _described(self, prefix)


class ApiDescription(OpenAPISchema):
    def operation_details(self, operation: Operation) -> dict[str, Any]:
        details: dict[str, Any] = super().operation_details(operation)
        for status in _statuses(operation, details):
            details["responses"].setdefault(status, problem(status))
        return details

    def operation_security(self, operation: Operation) -> list[dict[str, Any]] | None:
        """Return the scopes of an operation, one of which is enough."""
        requirements: list[dict[str, Any]] | None = super().operation_security(operation)
        for named, auth in zip(requirements or (), operation.auth_callbacks, strict=True):
            for name in named:
                named[name] = list(getattr(auth, "scopes", ()))
        return requirements

    def get_components(self) -> dict[str, Any]:
        components: dict[str, Any] = super().get_components()
        components["schemas"]["Problem"] = problems.SCHEMA
        return components


@lru_cache(maxsize=2)
def _described(api: NinjaAPI, prefix: str) -> ApiDescription:
    """Return the description. It is made once: anybody may ask for it, and making it takes longer
    than most answers.
    """
    return ApiDescription(api, prefix)


def _statuses(operation: Operation, details: dict[str, Any]) -> list[int]:
    statuses = list(_ALWAYS)
    if "{" in operation.path:
        statuses.append(404)
    if set(operation.methods) - {"GET", "HEAD"}:
        statuses.append(409)
    if "requestBody" in details:
        statuses.append(413)
    return sorted(statuses)


def problem(status: int) -> dict[str, Any]:
    """Return an answer other than 2xx; to be named where an operation has one that others
    haven't.
    """
    schema = {"$ref": "#/components/schemas/Problem"}
    described: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {problems.CONTENT_TYPE: {"schema": schema}},
    }
    return described | {"headers": _RETRY_AFTER} if status == 429 else described
