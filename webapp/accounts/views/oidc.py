"""Sign-in by the OpenID Connect provider of the house.

The protocol's library takes 25 MB: only a service that has a provider loads it.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts import people
from webapp.accounts.access import open_to_everybody
from webapp.accounts.views.sign_in import enter, sign_in_page

UNKNOWN = (
    "{email} has no account and no invitation here. Ask an owner of a workspace for an invitation."
)


@open_to_everybody
@require_safe
@never_cache
def oidc_begin(request: HttpRequest) -> HttpResponse:
    """A link, not a form: by our own policy browsers let no form lead to another site."""
    if not settings.OIDC_ISSUER:
        return redirect("accounts:sign_in")
    from webapp.accounts import oidc

    try:
        return oidc.begin(request)
    except oidc.ProviderError as error:
        return sign_in_page(request, status=502, problem=str(error))


@open_to_everybody
@require_safe
@never_cache
def oidc_return(request: HttpRequest) -> HttpResponse:
    """Where the provider sends people back to."""
    if not settings.OIDC_ISSUER:
        return redirect("accounts:sign_in")
    from webapp.accounts import oidc

    try:
        claims = oidc.verified_claims(request)
    except oidc.ProviderError as error:
        return sign_in_page(request, status=400, problem=str(error))
    user = people.vouched_for(claims["email"], str(claims.get("name") or ""))
    if user is None:
        return sign_in_page(request, status=403, problem=UNKNOWN.format(email=claims["email"]))
    return enter(request, user)
