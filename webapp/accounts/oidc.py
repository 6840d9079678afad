"""Sign-in by an OpenID Connect provider.

Authlib implements the protocol (discovery, authorization code with PKCE, state, nonce, signature
and claims of the ID token). This module decides which answers are accepted.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import requests
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.base_client.errors import MismatchingStateError
from authlib.integrations.django_client import DjangoOAuth2App, OAuth
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from joserfc.errors import JoseError

from webapp.accounts.models import User

TIMEOUT_SECONDS = 10


class IdentityProviderError(Exception):
    """Raised when the provider didn't confirm a person; the message is for them."""


def begin_sign_in(request: HttpRequest) -> HttpResponse:
    """Send the person to the provider. Raises ProviderError if it doesn't answer."""
    back = settings.BASE_URL + reverse("accounts:oidc_return")
    try:
        answer: HttpResponse = _provider().authorize_redirect(request, back)
    except (AuthlibBaseError, requests.RequestException, ValueError, RuntimeError) as error:
        raise _no_answer() from error
    return answer


def verified_claims(request: HttpRequest) -> dict[str, Any]:
    """Return the provider's claims about the person; `email` is verified and normalised.

    Raises:
        ProviderError: the person declined, the answer belongs to no request of this browser, isn't
            from the provider, or has no verified address.
    """
    try:
        claims = _claims(request)
    except MismatchingStateError as error:
        said = "This sign-in was started in another browser or too long ago. Start again."
        raise IdentityProviderError(said) from error
    except requests.RequestException as error:
        raise _no_answer() from error
    except (AuthlibBaseError, JoseError, ValueError, RuntimeError) as error:
        said = f"{settings.OIDC_NAME} did not confirm who you are. Try again, or ask its operators."
        raise IdentityProviderError(said) from error
    return claims | {"email": _verified_address(claims)}


def _claims(request: HttpRequest) -> dict[str, Any]:
    """Return the claims of the ID token; some providers send the address only by userinfo."""
    provider = _provider()
    token = provider.authorize_access_token(request, claims_options=_expected(provider))
    claims: dict[str, Any] = dict(token.get("userinfo") or {})
    if "sub" not in claims:
        raise ValueError("there is no ID token")
    if "email" in claims:
        return claims
    more = dict(provider.userinfo(token=token))
    if more.get("sub") != claims["sub"]:
        raise ValueError("the userinfo is about somebody else")
    return more | claims


def _expected(provider: DjangoOAuth2App) -> dict[str, Any]:
    """Return the claims that the ID token must have: issuer and audience (OpenID Connect Core 1.0,
    3.1.3.7). The provider's metadata must name the configured issuer (Discovery 1.0, 4.3).
    """
    issuer = provider.load_server_metadata().get("issuer")
    if not isinstance(issuer, str) or issuer.rstrip("/") != settings.OIDC_ISSUER.rstrip("/"):
        raise ValueError("the description is of another issuer")
    return {
        "iss": {"essential": True, "value": issuer},
        "aud": {"essential": True, "value": settings.OIDC_CLIENT_ID},
    }


def _verified_address(claims: dict[str, Any]) -> str:
    """Return the address that identifies an account, if the provider has verified it."""
    email = claims.get("email")
    # Some send the text "true" here (Amazon Cognito's userinfo does).
    verified = claims.get("email_verified")
    if not isinstance(email, str) or not (verified is True or verified == "true"):
        raise IdentityProviderError(
            f"{settings.OIDC_NAME} has no verified email address for you. Verify your address "
            "there, then try again."
        )
    return User.normalise_email(email)


def _no_answer() -> IdentityProviderError:
    return IdentityProviderError(f"{settings.OIDC_NAME} doesn't answer. Try again in a minute.")


def _provider() -> DjangoOAuth2App:
    return _registered(
        settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET or None
    )


@cache
def _registered(issuer: str, client_id: str, client_secret: str | None) -> DjangoOAuth2App:
    """Return the provider's client. It caches the provider's metadata and keys; unknown keys are
    fetched again.
    """
    return OAuth().register(
        "oidc",
        client_id=client_id,
        client_secret=client_secret,
        server_metadata_url=f"{issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": "openid email profile",
            "code_challenge_method": "S256",
            "default_timeout": TIMEOUT_SECONDS,
        },
    )
