"""The reference of the API as a page, made from its OpenAPI description."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from ninja import NinjaAPI

TITLES = {
    "read": "Read",
    "write": "Change",
    "recommendations": "Recommendations",
    "ingest": "Upload",
    "rules": "Rules",
}
"""The titles of the operations' tags, in this order; others follow under their own name."""
TYPES = "types"
"""The section of the types, beside those of the tags."""
METHODS = ("get", "post", "put", "patch", "delete")
_OF_TYPE = "#/components/schemas/"
_USUAL = ("400", "401", "403", "422", "429")
"""The problems that any operation may answer."""

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Piece:
    """Part of the words for a type; `type` is the name of one that the page describes."""

    words: str
    type: str = ""


@dataclass(frozen=True)
class Field:
    name: str
    place: str
    """The place of a parameter: path, query or header. It is empty in a body."""
    pieces: tuple[Piece, ...]
    is_required: bool
    note: str


@dataclass(frozen=True)
class Content:
    """A body: what it is, and of which type."""

    status: str
    """The status of the answer; empty for the request."""
    said: str
    media: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class OperationLine:
    method: str
    path: str
    anchor: str
    summary: str
    description: str
    scopes: tuple[str, ...]
    parameters: tuple[Field, ...]
    bodies: tuple[Content, ...]
    answers: tuple[Content, ...]
    """The answers, without the usual problems."""


@dataclass(frozen=True)
class TypeLine:
    name: str
    description: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class ReferenceSection:
    """The operations of one tag, a page of their own."""

    name: str
    title: str
    operations: tuple[OperationLine, ...]


@dataclass(frozen=True)
class Reference:
    sections: tuple[ReferenceSection, ...]
    types: tuple[TypeLine, ...]


def page_of(api: NinjaAPI) -> Callable[[HttpRequest], HttpResponse]:
    """Return the view that shows the list of operations, or one section of the reference. It shows
    nothing of any workspace.
    """

    @require_safe
    def page(request: HttpRequest, section: str = "") -> HttpResponse:
        reference = _reference(api)
        shown = next((each for each in reference.sections if each.name == section), None)
        if shown is None and section not in ("", TYPES):
            raise Http404
        context = {"reference": reference, "shown": shown, "usual": ", ".join(_USUAL)}
        return render(request, "manual/api.html", context | {"has_types": section == TYPES})

    return page


@lru_cache(maxsize=1)
def _reference(api: NinjaAPI) -> Reference:
    document = api.get_openapi_schema()
    by_tag: dict[str, list[OperationLine]] = {tag: [] for tag in TITLES}
    for path, methods in sorted(document["paths"].items()):
        for method in METHODS:
            if method in methods:
                operation = methods[method]
                tag = next(iter(operation.get("tags", ())), "")
                by_tag.setdefault(tag, []).append(_operation(path, method, operation))
    schemas = document["components"]["schemas"]
    return Reference(
        tuple(
            ReferenceSection(tag, TITLES.get(tag, tag), tuple(lines))
            for tag, lines in by_tag.items()
            if lines
        ),
        tuple(
            TypeLine(name, schema.get("description", ""), tuple(_fields(schema)))
            for name, schema in sorted(schemas.items())
        ),
    )


def _operation(path: str, method: str, said: Schema) -> OperationLine:
    answers = {s: a for s, a in said.get("responses", {}).items() if str(s) not in _USUAL}
    scopes = [
        scope for each in said.get("security", ()) for named in each.values() for scope in named
    ]
    return OperationLine(
        method=method.upper(),
        path=path,
        anchor=said["operationId"],
        summary=said.get("summary", ""),
        description=said.get("description", ""),
        scopes=tuple(dict.fromkeys(scopes)),
        parameters=tuple(_parameter(each) for each in said.get("parameters", ())),
        bodies=tuple(_contents("", said.get("requestBody", {}))),
        answers=tuple(
            content for status, each in answers.items() for content in _contents(str(status), each)
        ),
    )


def _parameter(said: Schema) -> Field:
    schema = said.get("schema", {})
    note = said.get("description") or schema.get("description", "")
    return Field(said["name"], said["in"], tuple(_pieces(schema)), bool(said.get("required")), note)


def _contents(status: str, said: Schema) -> Iterator[Content]:
    described = said.get("description", "")
    contents = said.get("content", {})
    for media, each in contents.items():
        yield Content(status, described, media, tuple(_pieces(each.get("schema", {}))))
    if status and not contents:
        yield Content(status, described, "", ())


def _fields(schema: Schema) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        note = each.get("description", "")
        yield Field(name, "", tuple(_pieces(each)), name in required, note)


def _pieces(schema: Schema) -> Iterator[Piece]:
    """Yield the words for a schema, the names of types among them."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_OF_TYPE)
        yield Piece(name, name)
    elif "anyOf" in schema or "oneOf" in schema:
        for number, each in enumerate(schema.get("anyOf") or schema["oneOf"]):
            if number:
                yield Piece(" or ")
            yield from _pieces(each)
    elif "enum" in schema:
        yield Piece(", ".join(map(str, schema["enum"])))
    elif schema.get("type") == "array":
        yield Piece("list of ")
        yield from _pieces(schema.get("items", {}))
    elif isinstance(schema.get("additionalProperties"), Mapping):
        yield Piece("mapping to ")
        yield from _pieces(schema["additionalProperties"])
    else:
        yield Piece(_plain(schema))


def _plain(schema: Schema) -> str:
    words = str(schema.get("format") or schema.get("type") or "any value")
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{words}, {low} to {high}"
    if low is not None:
        return f"{words}, at least {low}"
    if high is not None:
        return f"{words}, at most {high}"
    longest = schema.get("maxLength")
    return f"{words}, at most {longest} characters" if longest is not None else words
