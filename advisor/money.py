"""Amounts of money: USD as `Decimal`, never float. Rounding, formatting and parsing.

Amounts are exact until they are written. Then they are rounded once, to the nearest nano-dollar,
with a half rounded away from zero. If an amount is split, the running total is rounded and each
part is the difference of two totals, so that the parts add up to the whole exactly. Of a share,
the nearest smaller amount is taken. Amounts on pages are rounded to the nearest, to the digits
shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from typing import TypeVar

NANO_USD = Decimal(1).scaleb(-9)
NO_PRICE = "no price"
MINUS = "−"
_NANO_PER_USD = 10**9
_TEN_THOUSANDTH, _CENT = Decimal("0.0001"), Decimal("0.01")

Name = TypeVar("Name")


def rounded_usd(usd: Decimal | Fraction) -> Decimal:
    """Return the nearest whole nano-dollar, a half away from zero."""
    if isinstance(usd, Decimal):
        return usd.quantize(NANO_USD, ROUND_HALF_UP)
    nearest = (2 * abs(usd) * _NANO_PER_USD + 1) // 2
    return from_nano_usd(nearest if usd >= 0 else -nearest)


def share_of_usd(usd: Decimal, share: float) -> Decimal:
    """Return the part of an amount in whole nano-dollars, rounded down: parts whose shares sum to
    at most 1 never sum to more than the amount.
    """
    return (usd * Decimal(str(share))).quantize(NANO_USD, ROUND_DOWN)


def from_nano_usd(nano_usd: int) -> Decimal:
    """Return USD from whole nano-dollars, as stored in rows."""
    return Decimal(nano_usd).scaleb(-9)


def to_nano_usd(usd: Decimal) -> int:
    """Return whole nano-dollars, rounded as above."""
    return int(rounded_usd(usd).scaleb(9))


def split_usd(total_usd: Decimal, weights: Mapping[Name, Fraction | int]) -> dict[Name, Decimal]:
    """Split an amount by weights, in whole nano-USD. The parts add up to it exactly.

    Returns:
        The parts; empty if no weight is above 0.
    """
    whole = sum(weights.values(), Fraction(0))
    if not whole:
        return {}
    parts: dict[Name, Decimal] = {}
    weight_so_far, written = Fraction(0), Decimal(0)
    for name, weight in weights.items():
        weight_so_far += weight
        total_so_far = rounded_usd(Fraction(total_usd) * weight_so_far / whole)
        parts[name] = total_so_far - written
        written = total_so_far
    return parts


def display_usd(usd: Decimal | None) -> str:
    """Write four decimals below $1, else cents; "no price" for None; `$0.00` for exactly
    nothing.
    """
    if not usd:
        return NO_PRICE if usd is None else "$0.00"
    sign, amount = (MINUS if usd < 0 else ""), abs(usd)
    fine = amount.quantize(_TEN_THOUSANDTH, ROUND_HALF_UP)
    if amount and not fine:
        return f"{sign}<${_TEN_THOUSANDTH}"
    if fine < 1:
        return f"{sign}${fine}"
    return f"{sign}${amount.quantize(_CENT, ROUND_HALF_UP):,}"


def round_amount_above(usd: Decimal) -> Decimal:
    """Return the next 1, 2, 5 or 10 times a power of ten, for the end of an axis; $1 for
    nothing.
    """
    scale = Decimal(1).scaleb(usd.adjusted()) if usd else Decimal(1)
    return next(step * scale for step in (1, 2, 5, 10) if step * scale >= usd)


def display_signed_usd(usd: Decimal | None) -> str:
    """Write an amount like `display_usd`, with a plus sign for positive amounts."""
    return f"+{display_usd(usd)}" if usd is not None and usd > 0 else display_usd(usd)


def display_usd_per_unit(usd: Decimal) -> str:
    """Write an amount like `display_usd`, but with at least three significant digits."""
    if not usd or abs(usd) >= Decimal("0.1"):
        return display_usd(usd)
    shown = usd.quantize(Decimal(1).scaleb(usd.adjusted() - 2), ROUND_HALF_UP)
    return f"{MINUS if shown < 0 else ''}${abs(shown):f}"


def plain_usd(usd: Decimal) -> str:
    """Write an amount with all digits, without exponent and trailing zeros."""
    return f"{usd.normalize():f}"


def exact_usd(usd: Decimal) -> str:
    """Write all digits, at least two of them decimals: `6.15672`, `2.00`."""
    whole, _, digits = plain_usd(usd).partition(".")
    return f"{whole}.{digits:0<2}"


def parse_usd(text: str, most_usd: Decimal) -> Decimal:
    """Parse an amount from 0 to `most_usd`: `1.25` or `$1.25`.

    Raises:
        ValueError: not such an amount, or finer than a nano-dollar. The message says what is
            expected.
    """
    try:
        usd = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        raise ValueError(f"is {text!r}; write it as 1.25") from None
    if not usd.is_finite() or not 0 <= usd <= most_usd:
        raise ValueError(f"is {text}; it must be between 0 and {most_usd:,}")
    if usd != usd.quantize(NANO_USD):
        raise ValueError("has more than nine decimals")
    return usd
