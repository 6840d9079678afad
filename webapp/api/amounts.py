"""Writes money for the API."""

from __future__ import annotations

from decimal import Decimal


def money(amount: Decimal | None) -> str | None:
    """Return USD as plain decimal text, exact to the nano-dollar: no reader can round it by
    accident.
    """
    return None if amount is None else f"{amount:f}"
