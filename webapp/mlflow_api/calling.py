"""Calls a method of the API: the token, then the method, then errors in MLflow's form."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable
from functools import cache

from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponseBase

from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.http import rate_limits, trouble
from webapp.http.addresses import client_address
from webapp.http.problems import Problem, server_error
from webapp.mlflow_api import errors
from webapp.mlflow_api.errors import MlflowError

logger = logging.getLogger(__name__)


def answer(
    request: HttpRequest, method: Callable[[Token], HttpResponseBase], scopes: tuple[str, ...]
) -> HttpResponseBase:
    """Return the method's answer to a token with one of these scopes, or an error."""
    try:
        return method(_token(request, scopes))
    except MlflowError as error:
        return error.response()
    except Problem as problem:
        return errors.from_problem(problem)
    except Http404 as error:
        return errors.missing_resource(str(error)).response()
    except RequestDataTooBig as error:
        return errors.from_problem(Problem(413, str(error)))
    except Exception as error:
        if passing := trouble.problem(error):
            return errors.from_problem(passing)
        logger.exception("a call of MLflow's API failed", extra={"path": request.path_info})
        return errors.from_problem(server_error())


def _token(request: HttpRequest, scopes: tuple[str, ...]) -> Token:
    """Return the request's token. Raises MlflowError 401, or Problem 403 or 429."""
    address = client_address(request)
    rate_limits.address_asks(address)
    plain = _plain(request.headers.get("Authorization", ""))
    token = _bearer(scopes).valid(address, plain) if plain else None
    if token is None:
        raise MlflowError(
            "UNAUTHENTICATED",
            "No valid token. Set MLFLOW_TRACKING_TOKEN to a token of the workspace.",
        )
    return token


@cache
def _bearer(scopes: tuple[str, ...]) -> Bearer:
    return Bearer(*scopes, remembers=True)


def _plain(header: str) -> str:
    """Return the token of a header: as bearer, or as password or user name."""
    kind, _, said = header.partition(" ")
    if kind.lower() == "bearer":
        return said.strip()
    if kind.lower() != "basic":
        return ""
    try:
        user, _, password = base64.b64decode(said, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return password or user
