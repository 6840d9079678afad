"""Bearer tokens of agents and scripts.

Agents send the same token ten times a second: what it was found to be holds for some seconds. A
token that is revoked by this process is refused at once, by another one within that time.
"""

from __future__ import annotations

import time
from datetime import timedelta

from django.db.models.signals import post_delete, post_save
from django.http import HttpRequest
from django.utils import timezone
from ninja.security.http import HttpAuthBase

from webapp.accounts.models import Token, Workspace, digest
from webapp.http import rate_limits
from webapp.http.addresses import client_address
from webapp.http.problems import Problem

_TOUCH_EVERY = timedelta(minutes=1)
REMEMBERED_SECONDS, MOST_REMEMBERED = 5.0, 10_000

_found: dict[str, tuple[Token, float]] = {}
"""The recent tokens by digest, and until when they hold (monotonic seconds)."""


class Bearer(HttpAuthBase):
    """Accepts a valid token with one of `scopes`; sets `request.auth` to it."""

    openapi_scheme, header = "bearer", "Authorization"
    openapi_description = "A token of the workspace. The settings show it once."

    def __init__(self, *scopes: str, remembers: bool = False) -> None:
        """Create the check. With `remembers`, a token may be some seconds old, with its
        workspace.
        """
        super().__init__()
        self.scopes = scopes
        self._find = _remembered if remembers else _valid

    def __call__(self, request: HttpRequest) -> Token | None:
        return self.token_of(client_address(request), request.headers.get(self.header, ""))

    def token_of(self, address: str, authorization: str) -> Token | None:
        """Return the valid token that a request from this address carries in its header, if any.

        Raises:
            Problem: 403 without one of the scopes, 429 after too many requests.
        """
        rate_limits.address_asks(address)
        kind, _, plain = authorization.partition(" ")
        return self.valid(address, plain) if kind.lower() == self.openapi_scheme else None

    def valid(self, address: str, plain: str) -> Token | None:
        """Return the token itself, if it is valid. Raises Problem 403 or 429."""
        known = self._find(address, digest(plain))
        if known is None:
            return None
        rate_limits.token_asks(known.pk)
        if not any(known.allows(scope) for scope in self.scopes):
            fix = f"Use a token with the scope {' or '.join(self.scopes)}."
            raise Problem(403, "This token lacks the required scope.", "Authorization", fix)
        _touch(known)
        return known


def _remembered(address: str, token_digest: str) -> Token | None:
    """Return the same as `_valid`, or what it was a moment ago."""
    token, until = _found.get(token_digest, (None, 0.0))
    if token is not None and time.monotonic() < until and token.is_valid:
        return token
    known = _valid(address, token_digest)
    if known is not None:
        if len(_found) >= MOST_REMEMBERED:
            _found.clear()
        _found[token_digest] = known, time.monotonic() + REMEMBERED_SECONDS
    return known


def _forget(**_: object) -> None:
    _found.clear()


for changed in (post_save, post_delete):
    for model in (Token, Workspace):
        changed.connect(_forget, sender=model, weak=False)


def _valid(address: str, token_digest: str) -> Token | None:
    """Return the valid token with this digest, if any. Raises Problem 429 after too many wrong
    ones.
    """
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
        token.last_used_at = now
