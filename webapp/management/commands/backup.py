"""`manage.py backup FILE`: the whole service in one archive, while it runs."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import filesizeformat

from webapp import env
from webapp.backup import making
from webapp.backup.rows import RowsError
from webapp.backup.shown import stages


class Command(BaseCommand):
    help = "Writes the database and all objects into one archive, while the service runs."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="archive to write (tar); must not exist")
        parser.add_argument(
            "--with-secrets",
            action="store_true",
            help="include secret-key and agent-token: anyone who has the archive can sign in",
        )
        parser.add_argument(
            "--with-objects",
            action="store_true",
            help="include the objects of a bucket; without it they are only listed",
        )
        parser.add_argument(
            "--allow-missing",
            action="store_true",
            help="leave out objects that the store has lost, instead of failing",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = making.BackupScope(
            has_objects=options["with_objects"] or making.keeps_objects_in_a_folder(),
            has_secrets=options["with_secrets"],
            may_miss_objects=options["allow_missing"],
        )
        path: Path = options["file"]
        try:
            with stages(self.stdout) as stage:
                made = making.make_backup(path, wanted, stage)
        except (making.BackupError, RowsError, OSError) as error:
            raise CommandError(f"No backup was made. {error}") from None
        self._report(path, made, wanted)

    def _report(self, path: Path, made: making.BackupResult, wanted: making.BackupScope) -> None:
        for key in made.missing:
            self.stderr.write(self.style.WARNING(f"missing, left out: {key}"))
        count = made.facts.object_count - len(made.missing)
        objects = f"{count} objects" if wanted.has_objects else f"a list of {count} objects"
        size = filesizeformat(path.stat().st_size)
        self.stdout.write(f"Backed up to {path} ({size}): database, {objects}.")
        if not wanted.has_objects:
            self.stdout.write(
                f"The objects themselves stay in {settings.OBJECTS_URL}: use versioning or "
                "replication there, or --with-objects."
            )
        if wanted.has_secrets and env.text("SECRET_KEY"):
            self.stdout.write("SECRET_KEY comes from the environment and is not in the archive.")
