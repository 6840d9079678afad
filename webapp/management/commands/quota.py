"""`manage.py quota`: shows and sets the limits of one workspace."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.management.workspaces import one_called
from webapp.quotas import overrides
from webapp.quotas.kinds import QUOTAS


class Command(BaseCommand):
    help = "Shows the quotas of a workspace, or sets other limits for it than the default."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="name or id of the workspace")
        parser.add_argument(
            "limits",
            nargs="*",
            metavar="QUOTA=LIMIT",
            help="e.g. storage_bytes=10T, runs=0 (no limit) or series=default",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = one_called(options["workspace"])
        try:
            limits = overrides.parse_limits(options["limits"])
        except overrides.OverrideError as error:
            raise CommandError(str(error)) from None
        if limits:
            overrides.change(workspace, limits)
        for quota in QUOTAS:
            limit = quota.limit(workspace)
            words = quota.words(limit) if limit else "no limit"
            source = "set for this workspace" if quota.name in workspace.quotas else "default"
            self.stdout.write(f"{quota.name:<20}{words:<24}{source}")
