"""Checks the arguments of a request: the query of a GET, or else a JSON object."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.http.request import UnreadablePostError
from trimtab.wire.limits import is_storable

from webapp.ingest.bodies import check_length
from webapp.mlflow_api.errors import invalid_parameter, missing_resource

MOST_BODY_BYTES = 2 * 1024 * 1024
MOST_KEY_CHARS, MOST_NAME_CHARS = 250, 500
MOST_PARAM_CHARS, MOST_TAG_CHARS = 6_000, 8_000
"""MLflow's own limits, but those of `log-batch`, which are in `labels`."""
MOST_TIME_MS = 4_102_444_800_000
"""The end of the year 2099."""
_KEY = re.compile(r"[\w.\- :/]+\Z")
_TEXT_NUMBERS = {"nan": math.nan, "infinity": math.inf, "inf": math.inf, "-infinity": -math.inf}


class Arguments:
    """The fields of a request. Every method raises `MlflowError` for what is not valid."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    @classmethod
    def from_request(cls, request: HttpRequest) -> Arguments:
        if request.method == "GET":
            return cls({name: _single(values) for name, values in request.GET.lists()})
        check_length(request.headers, MOST_BODY_BYTES, "Send smaller batches.")
        try:
            document = json.loads(request.body or b"{}")
        except UnreadablePostError:
            raise invalid_parameter("The body ended early.") from None
        except (ValueError, RecursionError):
            raise invalid_parameter("The body is not JSON.") from None
        if not isinstance(document, dict):
            raise invalid_parameter("The body is not an object.")
        return cls(document)

    def with_fields(self, named: Mapping[str, str]) -> Arguments:
        """Return the arguments with the fields that are in the URL."""
        return Arguments({**self._fields, **named})

    def document(self) -> dict[str, Any]:
        """Return all fields as they were sent."""
        return dict(self._fields)

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def text(self, name: str, most: int = MOST_NAME_CHARS, default: str | None = None) -> str:
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not is_storable(value):
            raise invalid_parameter(f"Missing or not text: '{name}'.")
        if len(value) > most:
            raise invalid_parameter(f"'{name}' has {len(value)} characters, more than {most}.")
        return value

    def key(self, name: str = "key") -> str:
        """Return the name of a metric, parameter or tag."""
        value = self.text(name, MOST_KEY_CHARS)
        if not _KEY.match(value) or value.startswith("/") or ".." in value.split("/"):
            raise invalid_parameter(
                f"Invalid name: '{value[:80]}'. Names may only contain letters, digits, "
                "underscores, dashes, periods, spaces, colons and slashes."
            )
        return value

    def value(self, most: int) -> str:
        return self.text("value", most, default="")

    def whole_number(self, name: str, default: int | None = None, most: int = 2**63 - 1) -> int:
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > most:
            raise invalid_parameter(f"Missing or not a whole number within the bounds: '{name}'.")
        return value

    def flag(self, name: str) -> bool:
        value = self._fields.get(name, False)
        if value in ("true", "false"):
            return bool(value == "true")
        if not isinstance(value, bool):
            raise invalid_parameter(f"Not true or false: '{name}'.")
        return value

    def moment_ms(self, name: str, default: int | None = None) -> int:
        """Return a moment in Unix milliseconds."""
        value = self.whole_number(name, default, MOST_TIME_MS)
        if value < 0:
            raise invalid_parameter(f"Negative: '{name}'.")
        return value

    def number(self, name: str) -> float:
        """Return a number, which may be one of the texts for numbers that JSON lacks."""
        value = self._fields.get(name)
        if isinstance(value, str) and value.lower() in _TEXT_NUMBERS:
            return _TEXT_NUMBERS[value.lower()]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise invalid_parameter(f"Missing or not a number: '{name}'.")
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, value)

    def parts(self, name: str, most: int) -> Iterator[Arguments]:
        """Yield the objects of a list."""
        for part in self.list(name, most):
            if not isinstance(part, dict):
                raise invalid_parameter(f"Not a list of objects: '{name}'.")
            yield Arguments(part)

    def part(self, name: str) -> Arguments:
        value = self._fields.get(name)
        if not isinstance(value, dict):
            raise invalid_parameter(f"Missing or not an object: '{name}'.")
        return Arguments(value)

    def texts(self, name: str, most: int) -> list[str]:
        single = self._fields.get(name)
        values = [single] if isinstance(single, str) else self.list(name, most)
        if not all(isinstance(value, str) for value in values):
            raise invalid_parameter(f"Not a list of texts: '{name}'.")
        return values

    def list(self, name: str, most: int) -> list[Any]:
        value = self._fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise invalid_parameter(f"Not a list: '{name}'.")
        if len(value) > most:
            raise invalid_parameter(f"'{name}' has {len(value)} entries, more than {most}.")
        return value

    def run_id(self) -> UUID:
        """Return the run's id, which clients send under one name or the other, or both."""
        return self.run_id_of("run_id" if self._fields.get("run_id") else "run_uuid")

    def run_id_of(self, name: str) -> UUID:
        return read_run_id(self._fields.get(name))


def _single(values: list[Any]) -> Any:
    """Return the value of a query's field, or the list if the field is repeated."""
    return values[0] if len(values) == 1 else values


def read_run_id(said: object) -> UUID:
    if isinstance(said, str) and re.fullmatch(r"[0-9a-f]{32}", said):
        return UUID(hex=said)
    raise missing_resource(f"Run with id={str(said)[:80]} not found")
