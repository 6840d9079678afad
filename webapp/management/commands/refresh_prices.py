"""`manage.py refresh_prices`: current prices and machines from AWS, or from its bulk files."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
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
from webapp.prices import refresh, sources
from webapp.prices.models import PriceRefresh

NO_CREDENTIALS = (
    "No AWS credentials found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a profile "
    "or an instance role. Without credentials, read AWS's public files with --public-files, or a "
    "file that you downloaded with --bulk PATH."
)


class Command(BaseCommand):
    help = "Refreshes prices and machines from AWS (docs/prices.md); resumes after an interruption."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--region", action="append", help="only this region; may be repeated")
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

    def handle(self, *args: Any, **options: Any) -> None:
        files = [*(options["bulk"] or []), *self._public(options)]
        failed = self._from_files(files) if files else self._from_providers(options)
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
        """A progress line, on a terminal."""
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
