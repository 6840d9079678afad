"""`manage.py retention`: delete what is past its time now, or only say what that is."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from webapp.database.object_hold import BackupRunningError
from webapp.retention import deletion
from webapp.retention.plan import PlannedDeletion


class Command(BaseCommand):
    help = (
        "Deletes samples, runs and orphaned objects that are older than their retention period "
        "(docs/retention.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="list what would be deleted; delete nothing"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object per line")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        is_dry = options["dry_run"]
        try:
            doomed = deletion.plan_deletions(now) if is_dry else deletion.delete_all_expired(now)
        except BackupRunningError as error:
            raise CommandError(str(error)) from None
        for item in doomed:
            self.stdout.write(json.dumps(item.document()) if options["json"] else _line(item))
        if not options["json"]:
            self.stdout.write(_sum("Would delete" if is_dry else "Deleted", doomed))


def _line(item: PlannedDeletion) -> str:
    size = f"  {filesizeformat(item.size_bytes)}" if item.size_bytes else ""
    return f"{item.kind:<10}{item.name}{size}"


def _sum(verb: str, doomed: Iterable[PlannedDeletion]) -> str:
    items = list(doomed)
    size = filesizeformat(sum(item.size_bytes for item in items))
    return f"{verb} {len(items)} thing{'' if len(items) == 1 else 's'}, {size}."
