"""Limits that the operator sets for one workspace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from uuid import UUID

from django.db import transaction

from webapp.accounts import audit
from webapp.accounts.models import Workspace
from webapp.quotas.kinds import BY_NAME, QUOTAS

_AMOUNT = re.compile(r"(\d{1,15})([KMGT]?)\Z", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class OverrideError(ValueError):
    """Raised for an invalid limit; the message says what is wrong and what to write instead."""


def parse_limits(words: list[str]) -> dict[str, int | None]:
    """Parse limits such as `storage_bytes=10T`, `runs=0` (no limit) and `series=default`, which is
    None.

    Raises:
        OverrideError: an unknown quota, or no whole number.
    """
    return dict(_parsed(word) for word in words)


def _parsed(word: str) -> tuple[str, int | None]:
    name, _, text = word.partition("=")
    if name not in BY_NAME:
        names = ", ".join(quota.name for quota in QUOTAS)
        raise OverrideError(f"{name!r} is not a quota. Use one of {names}.")
    if text == "default":
        return name, None
    if not (found := _AMOUNT.match(text)):
        raise OverrideError(
            f"{word!r}: write a whole number, with K, M, G or T for powers of 1024; 0 for no "
            "limit; or default."
        )
    return name, int(found[1]) * 1024 ** _POWERS[found[2].upper()]


@transaction.atomic
def change(workspace: Workspace, limits: Mapping[str, int | None]) -> None:
    """Set limits of the workspace, by name; None restores the default."""
    held = Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    before = dict(held.quotas)
    held.quotas = {name: n for name, n in {**before, **limits}.items() if n is not None}
    held.save(update_fields=["quotas"])
    changes = {name: (before.get(name), held.quotas.get(name)) for name in limits}
    changes = {name: pair for name, pair in changes.items() if pair[0] != pair[1]}
    if changes:
        audit.record(held, None, "quota.changed", "Quotas, by the operator", changes)
    workspace.quotas = held.quotas


def workspaces_called(reference: str) -> list[Workspace]:
    """Return the workspaces of this id or name; several workspaces may have one name."""
    try:
        return list(Workspace.objects.filter(uuid=UUID(reference)))
    except ValueError:
        return list(Workspace.objects.filter(name=reference).order_by("pk"))
