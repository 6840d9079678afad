"""The URLs of MLflow's API."""

from __future__ import annotations

import re

from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from webapp.accounts.models import Token
from webapp.ingest import artefacts, uploaders
from webapp.mlflow_api import files
from webapp.mlflow_api.arguments import Arguments
from webapp.mlflow_api.calling import answer
from webapp.mlflow_api.errors import MlflowError, missing_resource
from webapp.mlflow_api.files import ArtefactPath
from webapp.mlflow_api.methods import METHODS
from webapp.mlflow_api.rights import ANYBODY, FILES
from webapp.mlflow_api.traces import find_answer, refuse_first

_WITH_ID = re.compile(r"(logged-models)/(m-[0-9a-f]{32})(/\w+)?(?:/(.+))?\Z")


@csrf_exempt
def call(request: HttpRequest, method: str) -> HttpResponseBase:
    """Answers a method of the REST API, of which older clients know some under a `preview`."""
    method, named = _named(method.removeprefix("preview/mlflow/").strip("/"))
    known = METHODS.get((request.method or "", method))

    def called(token: Token) -> HttpResponseBase:
        if known is None:
            raise _unknown(request)
        said = Arguments.from_request(request)
        return JsonResponse(known(token, said.with_fields(named)))

    return answer(request, called, known.right.scopes if known else ANYBODY)


def _named(method: str) -> tuple[str, dict[str, str]]:
    """Return the method, and the fields that are in its path: a row's id, and a tag's key."""
    found = _WITH_ID.match(method)
    if found is None:
        return method, {}
    method = f"{found[1]}/{{id}}{found[3] or ''}"
    return (
        (f"{method}/{{key}}", {"id": found[2], "key": found[4]})
        if found[4]
        else (method, {"id": found[2]})
    )


@csrf_exempt
def list_files(request: HttpRequest) -> HttpResponseBase:
    """Answers the files of a folder of the artefact store."""
    right = FILES.get((request.method or "", "artifacts"))

    def called(token: Token) -> HttpResponseBase:
        if right is None:
            raise _unknown(request)
        place = ArtefactPath(token, request.GET.get("path", ""), right)
        return JsonResponse({"files": files.list_folder(place.tracked, place.model, place.path)})

    return answer(request, called, right.scopes if right else ANYBODY)


@csrf_exempt
def file(request: HttpRequest, path: str) -> HttpResponseBase:
    """Writes, reads or deletes one file of the artefact store."""
    right = FILES.get((request.method or "", "artifacts/{path}"))

    def called(token: Token) -> HttpResponseBase:
        if right is None:
            raise _unknown(request)
        place = ArtefactPath(token, path, right)
        if request.method == "GET":
            return files.answer(place)
        if request.method == "DELETE":
            files.remove(token, place)
        else:
            with artefacts.stream_file(request) as (content, sha256):
                files.keep_file(token, place, sha256, content)
        if right.is_upload:
            uploaders.remember_uploader(token, place.tracked.pk)
        return JsonResponse({})

    return answer(request, called, right.scopes if right else ANYBODY)


@csrf_exempt
def traces(request: HttpRequest, version: str, path: str = "") -> HttpResponseBase:
    """Answers what programs that trace ask for."""
    found = find_answer(request.method or "", version, path)

    def called(token: Token) -> HttpResponseBase:
        if found is None:
            raise _unknown(request)
        return JsonResponse(found(token, Arguments.from_request(request)))

    return answer(request, called, ANYBODY)


@csrf_exempt
def trace_file(request: HttpRequest, of: str, path: str) -> HttpResponseBase:
    """Answers clients before version 3 that write the spans of a trace."""

    def called(token: Token) -> HttpResponseBase:
        if request.method != "PUT":
            raise missing_resource(f"No file {path[:200]}: Trimtab keeps no traces.")
        refuse_first(token, of[:200])
        return JsonResponse({})

    return answer(request, called, ANYBODY)


@csrf_exempt
def elsewhere(request: HttpRequest) -> HttpResponseBase:
    """Answers 404 for anything else that MLflow's servers have."""

    def called(_token: Token) -> HttpResponseBase:
        raise _unknown(request)

    return answer(request, called, ANYBODY)


def _unknown(request: HttpRequest) -> MlflowError:
    message = f"{request.method} {request.path_info[:200]} is not supported. See /docs/mlflow/."
    return MlflowError("ENDPOINT_NOT_FOUND", message)
