"""`manage.py refresh_prices`: current prices and machines, from AWS, its bulk files or the public
catalogue of all clouds."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn

from advisor.pricing.providers.aws import bulk
from advisor.pricing.providers.aws.services import EC2, SAGEMAKER
from advisor.pricing.public_catalogue import files
from rules.wording import write_count
from webapp.prices import catalogue, refresh, sources
from webapp.prices.models import PriceRefresh

NO_CREDENTIALS = (
    "No AWS credentials found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a profile "
    "or an instance role. Without credentials, read the public catalogue of all clouds with "
    "--catalogue, AWS's public files with --public-files, or a file that you downloaded with "
    "--bulk PATH."
)


def _day(text: str) -> datetime:
    return datetime.combine(date.fromisoformat(text), time(), UTC)


class Command(BaseCommand):
    help = "Refreshes prices and machines (docs/prices.md); resumes after an interruption."

    def add_arguments(self, parser: ArgumentParser) -> None:
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--region", action="append", help="only this region; may be repeated")
        where.add_argument(
            "--all-regions",
            action="store_const",
            const=sources.bundled_regions(),
            dest="region",
            help="every region that has bundled prices",
        )
        parser.add_argument(
            "--only",
            choices=sources.SOURCES,
            action="append",
            help="only this source; may be repeated",
        )
        parser.add_argument(
            "--again", action="store_true", help="also what was refreshed within 20 hours"
        )
        parser.add_argument(
            "--bulk", action="append", metavar="PATH_OR_URL", help="read a bulk price file (JSON)"
        )
        parser.add_argument(
            "--public-files", action="store_true", help="AWS's bulk files; needs no credentials"
        )
        parser.add_argument(
            "--catalogue",
            nargs="?",
            const=files.PUBLIC_URL,
            metavar="FOLDER_OR_URL",
            help="prices of all clouds from the public SkyPilot catalogue; needs no credentials",
        )
        parser.add_argument(
            "--provider",
            choices=files.PROVIDERS,
            action="append",
            help="only this provider of the catalogue; may be repeated",
        )
        parser.add_argument(
            "--as-of",
            type=_day,
            metavar="DATE",
            help="the date of a local copy; default that of its files",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        bulk_files = [*(options["bulk"] or []), *self._public(options)]
        if options["catalogue"]:
            failed = self._from_catalogue(options["catalogue"], options)
        elif bulk_files:
            failed = self._from_files(bulk_files)
        else:
            failed = self._from_providers(options)
        if failed:
            raise CommandError("\n".join(failed))

    def _public(self, options: dict[str, Any]) -> Iterator[str]:
        if options["public_files"]:
            for part in sources.parts(options["only"] or (EC2, SAGEMAKER), options["region"] or ()):
                yield bulk.public_url(part.source, part.region)

    def _from_providers(self, options: dict[str, Any]) -> list[str]:
        askable = sources.askable()
        if not askable:
            raise CommandError(NO_CREDENTIALS)
        failed = []
        for part in sources.parts(options["only"] or askable, options["region"] or ()):
            if not options["again"] and not refresh.is_due(part, timezone.now()):
                self.stdout.write(f"{part.name}: refreshed within the last 20 hours")
                continue
            try:
                with self._bar(part.name) as on_page:
                    self._report(refresh.refresh(part, on_page))
            except refresh.RefreshError as error:
                failed.append(str(error))
        return failed

    def _from_catalogue(self, place: str, options: dict[str, Any]) -> list[str]:
        failed, read = [], 0
        for name in files.unknown_folders(place):
            self.stdout.write(f"{name}: not read: no known provider, or not priced in USD")
        for provider in options["provider"] or files.PROVIDERS:
            try:
                with files.open_file(place, provider) as found:
                    if found is None:
                        self.stdout.write(f"{provider}: not in this catalogue")
                        continue
                    file, date = found
                    regions = options["region"] or ()
                    report = catalogue.read(file, provider, options["as_of"] or date, regions)
                read += 1
                self._report_catalogue(report)
            except (OSError, ValueError, requests.RequestException) as error:
                failed.append(f"{provider}: {error}")
        return failed if failed or read else [f"{place}: no vms.csv of a known provider found"]

    def _report_catalogue(self, report: catalogue.CatalogueReport) -> None:
        self.stdout.write(
            f"{report.provider}: {write_count(report.added, 'price')} added, {report.unchanged} "
            f"unchanged, {write_count(report.machines, 'machine')}"
        )
        if report.contradictions:
            self.stdout.write(f"  {report.contradictions} contradict another source, see Prices")
        for why, lines in report.skipped.most_common():
            self.stdout.write(f"  skipped {write_count(lines, 'line')} {why}")

    def _from_files(self, places: list[str]) -> list[str]:
        failed = []
        for place in places:
            try:
                path = self._file(place)
                with path.open(encoding="utf-8") as file, self._bar(path.name) as on_page:
                    self._report(refresh.write_bulk(path.name, bulk.offers(file), on_page))
            except (OSError, ValueError, requests.RequestException) as error:
                failed.append(f"{place}: {error}")
        return failed

    def _file(self, place: str) -> Path:
        if urlsplit(place).scheme not in ("http", "https"):
            return Path(place)
        with self._progress(BarColumn(), DownloadColumn()) as shown:
            task = shown.add_task(f"fetching {urlsplit(place).path}", total=None)

            def on_bytes(so_far: int, in_all: int) -> None:
                shown.update(task, completed=so_far, total=in_all or None)

            return bulk.fetch(place, settings.DATA_DIR / "price-files", on_bytes)

    @contextmanager
    def _bar(self, name: str) -> Iterator[refresh.OnPage]:
        """Show a progress line on a terminal."""
        with self._progress(TextColumn("{task.completed} prices")) as shown:
            task = shown.add_task(name, total=None)

            def on_page(state: PriceRefresh) -> None:
                shown.update(task, completed=state.rows_read)

            yield on_page

    def _progress(self, *columns: Any) -> Progress:
        console = Console(file=self.stdout)  # type: ignore[arg-type]
        words = TextColumn("{task.description}")
        is_seen = self.stdout.isatty()
        return Progress(
            SpinnerColumn(), words, *columns, console=console, transient=True, disable=not is_seen
        )

    def _report(self, state: PriceRefresh) -> None:
        self.stdout.write(f"{state.name}: {state.rows_read} read, {state.rows_new} new")
