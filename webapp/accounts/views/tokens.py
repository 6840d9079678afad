"""The tokens of agents and scripts."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts import scope, tokens
from webapp.accounts.access import PersonRequest
from webapp.accounts.forms import TokenForm
from webapp.accounts.models import Token
from webapp.http.addresses import own_url

MAY = (
    (Token.INGEST, "Send runs", "for agents; also reads the runs that it sent"),
    (Token.READ, "Read", "jobs, runs, costs and findings through the API"),
    (
        Token.WRITE,
        "Change",
        "change and delete jobs and runs, their machines and bills through the API",
    ),
)


@require_http_methods(["GET", "POST"])
def list_tokens(request: PersonRequest) -> HttpResponse:
    """List the tokens. Members create new ones, each shown once."""
    form = TokenForm(request.POST or None, initial={"scopes": [Token.INGEST], "days": "365"})
    plain = _make(request, form) if request.method == "POST" and form.is_valid() else ""
    listed = scope.tokens_of(request.workspace).select_related("created_by", "kept_by")
    context = {
        "form": form,
        "plain": plain,
        "may": MAY,
        "chosen": form["scopes"].value() or [],
        "base_url": own_url(request),
        "tokens": [
            (t, tokens.may_revoke(request.membership, t))
            for t in listed.order_by("revoked_at", "-created_at")[: tokens.MOST_TOKENS]
        ],
    }
    return render(request, "accounts/tokens.html", context)


def _make(request: PersonRequest, form: TokenForm) -> str:
    data = form.cleaned_data
    return tokens.create_token(
        request.workspace, request.user, data["name"], data["scopes"], form.lifetime_days()
    )[1]


@require_POST
def revoke_token(request: PersonRequest, token_id: int) -> HttpResponse:
    token = get_object_or_404(scope.tokens_of(request.workspace), pk=token_id)
    if not tokens.may_revoke(request.membership, token):
        raise PermissionDenied("Owners revoke the tokens of others.")
    tokens.revoke(token, request.user)
    messages.success(
        request, f"{token} is revoked. Requests with this token are refused from now on."
    )
    return redirect("accounts:tokens")
