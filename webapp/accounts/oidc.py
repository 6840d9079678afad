"""Sign-in by an OpenID Connect provider: whom it vouches for.

Authlib does the protocol (discovery, authorization code with PKCE, state, nonce, signature and
claims of the ID token). Here is decided what its answer is worth.
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


class ProviderError(Exception):
    """The provider vouches for nobody; the message is for the person."""


def begin(request: HttpRequest) -> HttpResponse:
    """Send the person to the provider. Raises ProviderError when it doesn't answer."""
    back = settings.BASE_URL + reverse("accounts:oidc_return")
    try:
        answer: HttpResponse = _provider().authorize_redirect(request, back)
    except (AuthlibBaseError, requests.RequestException, ValueError, RuntimeError) as error:
        raise _no_answer() from error
    return answer


def verified_claims(request: HttpRequest) -> dict[str, Any]:
    """What the provider says of the person who came back; `email` is verified and normalised.

    Raises:
        ProviderError: they declined, the answer isn't to our question, isn't the provider's, or
            has no verified address.
    """
    try:
        claims = _claims(request)
    except MismatchingStateError as error:
        said = "This sign-in was started in another browser or too long ago. Start again."
        raise ProviderError(said) from error
    except requests.RequestException as error:
        raise _no_answer() from error
    except (AuthlibBaseError, JoseError, ValueError, RuntimeError) as error:
        said = f"{settings.OIDC_NAME} did not confirm who you are. Try again, or ask its operators."
        raise ProviderError(said) from error
    return claims | {"email": _verified_address(claims)}


def _claims(request: HttpRequest) -> dict[str, Any]:
    """Of the ID token; some providers keep the address for their userinfo endpoint."""
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
    """The issuer that its own description names must be the one we asked (OpenID Connect
    Discovery 1.0, section 4.3); the token must be from it and for us (Core 1.0, 3.1.3.7)."""
    issuer = provider.load_server_metadata().get("issuer")
    if not isinstance(issuer, str) or issuer.rstrip("/") != settings.OIDC_ISSUER.rstrip("/"):
        raise ValueError("the description is of another issuer")
    return {
        "iss": {"essential": True, "value": issuer},
        "aud": {"essential": True, "value": settings.OIDC_CLIENT_ID},
    }


def _verified_address(claims: dict[str, Any]) -> str:
    """Anybody can claim an address: only one that the provider has verified is linked."""
    email = claims.get("email")
    # Some send the text "true" here (Amazon Cognito's userinfo does).
    verified = claims.get("email_verified")
    if not isinstance(email, str) or not (verified is True or verified == "true"):
        raise ProviderError(
            f"{settings.OIDC_NAME} has no verified email address for you. Verify your address "
            "there, then try again."
        )
    return User.normalised(email)


def _no_answer() -> ProviderError:
    return ProviderError(f"{settings.OIDC_NAME} doesn't answer. Try again in a minute.")


def _provider() -> DjangoOAuth2App:
    return _registered(
        settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET or None
    )


@cache
def _registered(issuer: str, client_id: str, client_secret: str | None) -> DjangoOAuth2App:
    """Keeps the provider's description and keys; unknown keys are asked for again."""
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
