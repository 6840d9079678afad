"""Sign-in by the OpenID Connect provider of the house."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts import oidc, people
from webapp.accounts.access import open_to_everybody
from webapp.accounts.views.sign_in import enter, sign_in_page

UNKNOWN = "{email} is neither a member here nor invited. Ask an owner of your workspace to invite it."


@open_to_everybody
@require_safe
@never_cache
def oidc_begin(request: HttpRequest) -> HttpResponse:
    """A link, not a form: browsers let no form lead to another site, by our own policy."""
    if not oidc.name():
        return redirect("accounts:sign_in")
    try:
        return oidc.begin(request)
    except oidc.ProviderError as error:
        return sign_in_page(request, str(error), status=502)


@open_to_everybody
@require_safe
@never_cache
def oidc_return(request: HttpRequest) -> HttpResponse:
    """Where the provider sends people back to."""
    if not oidc.name():
        return redirect("accounts:sign_in")
    try:
        claims = oidc.verified_claims(request)
    except oidc.ProviderError as error:
        return sign_in_page(request, str(error), status=400)
    user = people.vouched_for(claims["email"], str(claims.get("name") or ""))
    if user is None:
        return sign_in_page(request, UNKNOWN.format(email=claims["email"]), status=403)
    return enter(request, user)
