"""`manage.py join_trainings`: joins earlier runs that continue one another."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from rules.continuation import GOES_ON
from rules.wording import write_count
from webapp.accounts.models import Workspace
from webapp.analysis.trainings import existing_runs
from webapp.analysis.trainings.lineage import Link
from webapp.management.workspaces import one_called
from webapp.runs.models import Run


class Command(BaseCommand):
    help = (
        "Joins runs that continue an interrupted run of their job "
        "(docs/trainings.md). A run is split off again on its training's page."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--workspace", metavar="NAME", help="name or id of a workspace; default: all"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="only list what would be joined, and why"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        named, is_dry = options["workspace"], options["dry_run"]
        found = [one_called(named)] if named else Workspace.objects.order_by("name", "pk")
        joined = sum(self._join(workspace, is_dry=is_dry) for workspace in found)
        done = "would be joined" if is_dry else "joined"
        self.stdout.write(f"{write_count(joined, 'run')} {done}.")

    def _join(self, workspace: Workspace, *, is_dry: bool) -> int:
        joined = 0
        for link in existing_runs.join(workspace, is_dry=is_dry):
            self.stdout.write(f"{workspace}: {_words(link, is_dry=is_dry)}")
            joined += link.refusal == GOES_ON
        unknown = Run.objects.present().ordinary().filter(workspace=workspace, numbered_steps=None)
        if count := unknown.count():
            self.stdout.write(
                f"{workspace}: {write_count(count, 'run')} without known steps left out."
            )
        return joined


def _words(link: Link, *, is_dry: bool) -> str:
    if link.refusal != GOES_ON:
        return f"{link.run} loaded a checkpoint of {link.before}, not joined: {link.refusal}"
    does = "would be joined" if is_dry else "joined"
    return f"{link.run} {does} with {link.before}: {dict(Run.CONTINUES_BY)[link.by]}"
