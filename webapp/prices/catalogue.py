"""Reads the public catalogue into dated prices and machines, one provider in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TextIO

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from advisor.pricing.machine import DEFAULT_PROVIDER
from advisor.pricing.price import CATALOGUE
from advisor.pricing.public_catalogue import machines, reading
from advisor.pricing.public_catalogue.lines import CatalogueError
from advisor.pricing.public_catalogue.offers import offers
from webapp.prices import sources, writing
from webapp.prices.models import Price, PriceRefresh

_BATCH = 500


@dataclass
class CatalogueReport:
    """Result of reading a provider's file. `skipped`: lines that were left out, by reason."""

    provider: str
    added: int = 0
    unchanged: int = 0
    machines: int = 0
    contradictions: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


@transaction.atomic
def read(
    file: TextIO, provider: str, as_of: datetime, regions: Collection[str] = ()
) -> CatalogueReport:
    """Write a provider's prices and machines as of that time. Nothing is written if it fails.

    Args:
        regions: only these; empty: all, without GPUs only those with a run.

    Raises:
        CatalogueError: the file can't be read, or is older than what is stored.
    """
    _check_age(provider, as_of)
    report = CatalogueReport(provider)
    kept = set(regions) or set(sources.regions_of(provider))
    name = f"{provider}/vms.csv"
    found = list(reading.machines(file, name, provider, kept, report.skipped))
    found = [line for line in found if not regions or line.region in kept]
    rest = offers(found, provider, as_of)
    while batch := list(islice(rest, _BATCH)):
        added = writing.write_offers(batch, as_of)
        report.added, report.unchanged = report.added + added, report.unchanged + len(batch) - added
        report.contradictions += writing.note_contradictions(batch)
    if provider != DEFAULT_PROVIDER:
        # AWS describes its machines itself, in more detail.
        for region, described in machines.by_region(found, provider, as_of.date()).items():
            report.machines += len(described)
            writing.write_machines(described, provider, region, as_of)
    _remember(report)
    return report


def _check_age(provider: str, as_of: datetime) -> None:
    stored = Price.objects.filter(workspace=None, precedence=CATALOGUE, provider=provider)
    newest = stored.aggregate(Max("seen_at"))["seen_at__max"]
    if newest is not None and as_of < newest:
        raise CatalogueError(
            f"{provider}/vms.csv: the copy of {as_of:%Y-%m-%d} is older than the prices stored on "
            f"{newest:%Y-%m-%d}; give the date of a newer one with --as-of"
        )


def _remember(report: CatalogueReport) -> None:
    row, _ = PriceRefresh.objects.get_or_create(name=f"catalogue/{report.provider}")
    row.rows_read, row.rows_new = report.added + report.unchanged, report.added
    row.finished_at, row.error = timezone.now(), ""
    row.save(update_fields=["rows_read", "rows_new", "finished_at", "error"])
