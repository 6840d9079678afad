"""The changes of a run's cost or amount of work beside its speed: told, and never a regression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from advisor.money import display_usd
from advisor.successive.machine_time import MachineWork

NOTABLE = 0.05
"""Share by which a quantity differs from the usual."""
NOTABLE_PRICE = Decimal("0.005")
NOTABLE_SECONDS = 10.0


@dataclass(frozen=True)
class Circumstances:
    """`usd_per_hour`: price of one node; `charged_share`: of its machines, 0 to 1."""

    worked: MachineWork
    usd_per_hour: Decimal | None
    charged_share: float | None


def describe_changes(before: Sequence[Circumstances], now: Circumstances) -> list[str]:
    """Return one sentence for each circumstance that differs from the runs before."""
    if not before:
        return []
    return [*_price(before, now), *_share(before, now), *_fixed(before, now), *_data(before, now)]


def _price(before: Sequence[Circumstances], now: Circumstances) -> Iterator[str]:
    known = [each.usd_per_hour for each in before if each.usd_per_hour is not None]
    if not known or now.usd_per_hour is None:
        return
    usual = median(known)
    if abs(now.usd_per_hour - usual) > NOTABLE_PRICE * usual:
        yield (
            f"The price is {display_usd(now.usd_per_hour)} an hour instead of {display_usd(usual)}."
        )


def _share(before: Sequence[Circumstances], now: Circumstances) -> Iterator[str]:
    usual = _usual(each.charged_share for each in before)
    if usual is None or now.charged_share is None:
        return
    if abs(now.charged_share - usual) > NOTABLE * usual:
        yield (
            f"It is charged for {100 * now.charged_share:.0f} % of its machines instead of "
            f"{100 * usual:.0f} %."
        )


def _fixed(before: Sequence[Circumstances], now: Circumstances) -> Iterator[str]:
    usual, own = _usual(each.worked.fixed_seconds for each in before), now.worked.fixed_seconds
    length = now.worked.duration_seconds
    if usual is None or own is None or not length:
        return
    if abs(own - usual) > max(NOTABLE_SECONDS, NOTABLE * length):
        yield f"Start-up and end took {own:.0f} s instead of {usual:.0f} s."


def _data(before: Sequence[Circumstances], now: Circumstances) -> Iterator[str]:
    """Yield a sentence if an epoch has other data: first by the samples, else by the steps. An
    epoch of more data takes longer.
    """
    for unit in ("samples", "tokens", "steps"):
        own = _an_epoch(now, unit)
        usual = _usual(_an_epoch(each, unit) for each in before)
        if own is not None and usual:
            if abs(own / usual - 1) > NOTABLE:
                yield f"An epoch has {own / usual:.2g} times the {unit} that it had before."
            return


def _an_epoch(run: Circumstances, unit: str) -> float | None:
    done, epochs = run.worked.work.get(unit), run.worked.work.get("epochs")
    return done / epochs if done and epochs else None


def _usual(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
