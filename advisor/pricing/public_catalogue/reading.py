"""Reads the machines of one provider with usable prices, and counts what is left out by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from advisor.pricing.public_catalogue import google
from advisor.pricing.public_catalogue.lines import MOST_USD, CatalogueLine, lines

TPU = "of TPUs"
NO_PRICE = "without a price"
NO_NAME = "without an instance type or region"
ABSURD = f"above ${MOST_USD:,} an hour"
CONTRADICTORY = "with a spot price above the list price"
ELSEWHERE = "without GPUs in regions without a run"


def machines(
    file: Iterable[str], name: str, provider: str, regions: Collection[str], skipped: Counter[str]
) -> Iterator[CatalogueLine]:
    """Yield the machines with GPUs, and those without in `regions`.

    Args:
        name: the file's, for errors.
        skipped: gets the number of lines that are left out, by reason.

    Raises:
        CatalogueError: the file can't be read. Names the line and the field.
    """
    found = _without_tpus(lines(file, name), skipped)
    whole = google.whole_machines(found, skipped) if provider == "gcp" else found
    for line in whole:
        why = _why_not(line)
        if not why and not line.accelerator and line.region not in regions:
            why = ELSEWHERE
        if why:
            skipped[why] += 1
        else:
            yield line


def _without_tpus(found: Iterable[CatalogueLine], skipped: Counter[str]) -> Iterator[CatalogueLine]:
    for line in found:
        if line.is_tpu:
            skipped[TPU] += 1
        else:
            yield line


def _why_not(line: CatalogueLine) -> str:
    if not line.instance_type or not line.region:
        return NO_NAME
    if not line.usd and not line.spot_usd:
        return NO_PRICE
    if max(line.usd or 0, line.spot_usd or 0) > MOST_USD:
        return ABSURD
    if line.usd and line.spot_usd and line.spot_usd > line.usd:
        return CONTRADICTORY
    return ""
