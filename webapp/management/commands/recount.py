"""`manage.py recount`: counts costs again that no longer equal a fresh count."""

from __future__ import annotations

from argparse import ArgumentParser
from decimal import Decimal
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from rules.wording import write_count
from webapp.analysis.renewal import recounting, repricing
from webapp.runs import locks


class Command(BaseCommand):
    help = "Counts the cost of every run that has ended again, from its times and prices."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--check",
            action="store_true",
            help="only list the runs whose cost differs; exit with 1 if there are any",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        runs = recounting.counted_runs().order_by("ended_at", "pk")
        checked, wrong = runs.count(), []
        left_out = recounting.ended_runs().count() - checked
        if left_out:
            self.stdout.write(
                f"Left out: {write_count(left_out, 'run')} whose analysis is due or failed."
            )
        for each in recounting.outdated_costs(runs.iterator(chunk_size=200)):
            self.stdout.write(f"{each.run.pk}  {each.run}: {_words(each)}")
            wrong.append(each.run.pk)
        if not wrong:
            self.stdout.write(f"{write_count(checked, 'run')}: all costs equal a fresh count.")
            return
        if options["check"]:
            told = f"{len(wrong)} of {checked} runs differ."
            raise CommandError(f"{told} Run `manage.py recount` to count them again.")
        for run_id in wrong:
            with transaction.atomic():
                repricing.reprice_run(locks.run(run_id))
        self.stdout.write(f"{len(wrong)} of {checked} runs were counted again.")


def _words(found: recounting.OutdatedCost) -> str:
    if found.stored_usd == found.fresh_usd:
        return f"{_amount(found.stored_usd)}, a fresh count splits it by time differently"
    return f"{_amount(found.stored_usd)}, a fresh count gives {_amount(found.fresh_usd)}"


def _amount(usd: Decimal | None) -> str:
    return "no price" if usd is None else f"${usd:f}"
