"""Bearer tokens of agents and scripts."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from webapp.accounts.models import Token, digest
from webapp.problems import Problem

_TOUCH_EVERY = timedelta(minutes=1)


class Bearer(HttpBearer):
    """Accepts a valid token with one of `scopes`; sets `request.auth` to it."""

    def __init__(self, *scopes: str) -> None:
        super().__init__()
        self.scopes = scopes

    def authenticate(self, request: HttpRequest, token: str) -> Token | None:
        found = Token.objects.select_related("workspace").filter(digest=digest(token)).first()
        if found is None or not found.is_valid:
            return None
        if not any(found.allows(scope) for scope in self.scopes):
            fix = f"Use a token with the scope {' or '.join(self.scopes)}."
            raise Problem(403, "This token may not do that.", "Authorization", fix)
        _touch(found)
        return found


def _touch(token: Token) -> None:
    """Remember the last use, at most once a minute: a write per upload would be waste."""
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > _TOUCH_EVERY:
        Token.objects.filter(pk=token.pk).update(last_used_at=now)
