"""Bearer tokens of agents and scripts."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from webapp.accounts.models import Token, digest
from webapp.http import rate_limits
from webapp.http.client_address import client_address
from webapp.http.problems import Problem

_TOUCH_EVERY = timedelta(minutes=1)


class Bearer(HttpBearer):
    """Accepts a valid token with one of `scopes`; sets `request.auth` to it."""

    openapi_description = "A token of the workspace. The settings show it once."

    def __init__(self, *scopes: str) -> None:
        super().__init__()
        self.scopes = scopes

    def __call__(self, request: HttpRequest) -> Token | None:
        rate_limits.address_asks(client_address(request))
        return super().__call__(request)

    def authenticate(self, request: HttpRequest, token: str) -> Token | None:
        known = _valid(client_address(request), digest(token))
        if known is None:
            return None
        rate_limits.token_asks(known.pk)
        if not any(known.allows(scope) for scope in self.scopes):
            fix = f"Use a token with the scope {' or '.join(self.scopes)}."
            raise Problem(403, "This token lacks the required scope.", "Authorization", fix)
        _touch(known)
        return known


def _valid(address: str, token_digest: str) -> Token | None:
    """The valid token with this digest, if any. Raises Problem 429 after too many wrong ones."""
    rate_limits.guesses.refuse(address, token_digest)
    held = Token.objects.filter(workspace__deleted_at=None).select_related("workspace")
    known = held.filter(digest=token_digest).first()
    if known is None or not known.is_valid:
        rate_limits.guesses.was_wrong(address)
        return None
    rate_limits.guesses.was_right(address, token_digest)
    return known


def _touch(token: Token) -> None:
    """Record the last use, at most once a minute, to save a write per upload."""
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > _TOUCH_EVERY:
        Token.objects.filter(pk=token.pk).update(last_used_at=now)
