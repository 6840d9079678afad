"""The changes of an edit, as the workspace's history records them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.db.models import Model

from advisor.money import plain_usd
from webapp.accounts.models import Token, User

Actor = User | Token
Change = dict[str, tuple[Any, Any]]
"""Field -> (before, after), for fields that differ."""


def changes(row: Model, values: Mapping[str, Any]) -> Change:
    """Return the changes that setting `values` on the row would make."""
    pairs = {name: (getattr(row, name), value) for name, value in values.items()}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def apply(row: Model, change: Change) -> None:
    """Set the changed values. The caller saves."""
    for name, (_, after) in change.items():
        setattr(row, name, after)


def to_json(change: Change) -> Change:
    """Return the change with amounts as text, which JSON keeps exactly."""
    return {name: (_plain(before), _plain(after)) for name, (before, after) in change.items()}


def _plain(value: Any) -> Any:
    return plain_usd(value) if isinstance(value, Decimal) else value
