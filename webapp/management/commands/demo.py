"""`manage.py demo`: the service with two measured training runs and sample data in it."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentParser
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from webapp.accounts.setup import first_workspace
from webapp.analysis.models import Judgement
from webapp.management import demonstration
from webapp.management.announcement import agent_token
from webapp.management.commands.up import add_service_arguments, start
from webapp.management.demonstration import DemonstrationError, Outcome
from webapp.runs.models import Run
from webapp.service.stack import AlreadyRunningError


class Command(BaseCommand):
    help = "Starts the service, measures two training runs, loads sample data and keeps running."
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_service_arguments(parser)
        parser.add_argument("--exit", action="store_true", help="stop the service afterwards")
        parser.add_argument("--against", metavar="URL", help=SUPPRESS)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["against"]:
            self._demonstrate(options["against"])
            return
        # The supervisor adds the local address once it is known to be free.
        again = [sys.executable, str(settings.BASE_DIR / "manage.py"), "demo", "--against"]
        try:
            start(options, then=again, exit_after=options["exit"], command=self)
        except AlreadyRunningError as running:
            self.stdout.write(f"Trimtab is already running at {running}; showing the demo there.")
            self._demonstrate(str(running))

    def _demonstrate(self, url: str) -> None:
        try:
            outcome = _with_progress(url)
        except DemonstrationError as error:
            raise CommandError(str(error)) from None
        _report(Console(highlight=False, soft_wrap=True), outcome)


def _with_progress(url: str) -> Outcome:
    """All stages, each with a bar on a terminal and a line when it is done."""
    console = Console(highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description:<44}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:

        def stage(title: str):  # type: ignore[no-untyped-def]
            console.print(title) if bars.disable else None
            task = bars.add_task(title, total=1.0)
            return lambda share: bars.update(task, completed=share)

        return _stages(url, stage)


def _stages(url: str, stage: Any) -> Outcome:
    token = agent_token(first_workspace())
    runs = []
    for pipeline in demonstration.PIPELINES:
        done = stage(f"Training with the {pipeline} input pipeline")
        runs.append(demonstration.measure(url, token, pipeline, done))
        done(1.0)
    done = stage("Waiting for the analysis")
    runs = [demonstration.wait_for_analysis(run, done) for run in runs]
    done(1.0)
    outcome = demonstration.outcome(runs)
    done = stage("Loading sample data")
    demonstration.load_sample_data(url, done)
    done(1.0)
    return outcome


def _report(console: Console, outcome: Outcome) -> None:
    console.print()
    for run, pipeline in zip(outcome.runs, demonstration.PIPELINES, strict=True):
        _report_run(console, run, pipeline)
    for advised in outcome.recommendations:
        console.print(f"[bold]Recommended:[/] {advised.title}")
    console.print(f"[bold]What changed:[/] {comparison_url(*outcome.runs)}\n")


def _report_run(console: Console, run: Run, pipeline: str) -> None:
    length = run.duration.total_seconds() if run.duration else 0
    console.print(f"[bold]{run}[/] ({pipeline} pipeline): {length:.0f} s, ${run.cost_usd:.4f}")
    fired = run.judgements.filter(state=Judgement.FIRED)
    for finding in fired:
        console.print(f"    {finding.rule}: {finding.summary}")
    if not fired:
        console.print("    no findings")


def comparison_url(first: Run, second: Run) -> str:
    query = urlencode({"a": first.pk, "b": second.pk})
    return f"{settings.BASE_URL}{reverse('dashboard:compare')}?{query}"
