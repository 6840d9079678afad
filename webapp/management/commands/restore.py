"""`manage.py restore FILE`: a service made from an archive of `manage.py backup`."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

import webapp
from webapp.backup import making, restoring, rows
from webapp.backup.archive import ArchiveError
from webapp.backup.shown import stages
from webapp.service.stack import AlreadyRunningError, lock_data_folder

ERRORS = (
    ArchiveError,
    restoring.RestoreError,
    making.BackupError,
    rows.RowsError,
    DatabaseError,
    OSError,
)


class Command(BaseCommand):
    help = "Checks an archive, then puts its database and objects in place. Stop the service first."
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="archive of `manage.py backup`")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="replace a service that is in use; it is backed up into its data folder first",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        lock = self._lock()
        try:
            with stages(self.stdout) as stage:
                restored, aside = self._restore(options["file"], options["replace"], stage)
        except ERRORS as error:
            raise CommandError(f"Not restored. {error}") from None
        finally:
            os.close(lock)
        self._report(restored, aside)

    def _lock(self) -> int:
        try:
            return lock_data_folder()
        except AlreadyRunningError as running:
            message = f"Trimtab is running at {running}. Stop it first, then restore."
            raise CommandError(message) from None

    def _restore(
        self, path: Path, is_replacing: bool, stage: making.Stage
    ) -> tuple[restoring.RestoreResult, Path | None]:
        is_used = rows.has_people()
        if is_used and not is_replacing:
            raise restoring.RestoreError(
                f"The service in {settings.DATA_DIR} is in use. Restore into an empty data folder "
                "and database, or with --replace: what is here is then backed up first."
            )
        facts = restoring.check(path, stage)
        aside = self._set_aside(stage) if is_used else None
        return restoring.restore(path, facts, stage), aside

    def _set_aside(self, stage: making.Stage) -> Path:
        """Return the service as it is, in an archive that can be restored in turn."""
        path = Path(settings.DATA_DIR) / f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar"
        has_objects = making.keeps_objects_in_a_folder()
        wanted = making.BackupScope(has_objects, has_secrets=True, may_miss_objects=True)
        made = making.make_backup(path, wanted, stage)
        for key in made.missing:
            self.stderr.write(self.style.WARNING(f"missing in the replaced service: {key}"))
        return path

    def _report(self, restored: restoring.RestoreResult, aside: Path | None) -> None:
        facts = restored.facts
        self.stdout.write(
            f"Restored the service of {facts.created_at} (Trimtab {facts.trimtab}): database and "
            f"{facts.object_count} objects. Start it with `python3 manage.py up`."
        )
        if facts.trimtab != webapp.__version__:
            self.stdout.write(f"Its database was migrated to Trimtab {webapp.__version__}.")
        if not restored.has_secrets:
            self.stdout.write(
                "The archive holds no secrets: people sign in again, links in old mails end."
            )
        if aside is not None:
            self.stdout.write(f"What was here before is in {aside}; delete it when you are sure.")
