"""Sign-in by an OpenID Connect provider.

The protocol's library takes 25 MB, so it is imported only if a provider is set.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts import people
from webapp.accounts.access import open_to_everybody
from webapp.accounts.views.sign_in import enter_by_provider, sign_in_page

UNKNOWN = (
    "{email} has no account and no invitation here. Ask an owner of a workspace for an invitation."
)


@open_to_everybody
@require_safe
@never_cache
def oidc_begin(request: HttpRequest) -> HttpResponse:
    """Sends the person to the provider. A link leads here, not a form: our content security policy
    forbids forms that lead to another site.
    """
    if not settings.OIDC_ISSUER:
        return redirect("accounts:sign_in")
    from webapp.accounts import oidc

    try:
        return oidc.begin_sign_in(request)
    except oidc.IdentityProviderError as error:
        return sign_in_page(request, status=502, problem=str(error))


@open_to_everybody
@require_safe
@never_cache
def oidc_return(request: HttpRequest) -> HttpResponse:
    """Signs the person in whom the provider sends back here."""
    if not settings.OIDC_ISSUER:
        return redirect("accounts:sign_in")
    from webapp.accounts import oidc

    try:
        claims = oidc.verified_claims(request)
    except oidc.IdentityProviderError as error:
        return sign_in_page(request, status=400, problem=str(error))
    user = people.vouched_for(claims["email"], str(claims.get("name") or ""))
    if user is None:
        return sign_in_page(request, status=403, problem=UNKNOWN.format(email=claims["email"]))
    return enter_by_provider(request, user)
