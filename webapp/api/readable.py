"""Runs that a token may read."""

from __future__ import annotations

from django.http import Http404

from webapp.accounts.models import Token
from webapp.http.problems import Problem
from webapp.runs import scope
from webapp.runs.models import Run


def run(token: Token, reference: str) -> Run:
    """Return a run by id, or as JOB#NUMBER. Raises Problem 404, or Http404 for tokens that read all
    runs.
    """
    try:
        return scope.run_called(token, reference)
    except Http404:
        if token.allows(Token.READ):
            raise
        detail = "Not among the runs that this token uploaded to."
        fix = "Use a token with the scope read to read other runs of the workspace."
        raise Problem(404, detail, "Authorization", fix) from None
