"""`manage.py demo`: the service with two measured training runs and sample data in it."""

from __future__ import annotations

import sys
import time
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from advisor.money import display_usd
from webapp.accounts.setup import first_workspace
from webapp.analysis.models import Judgement
from webapp.management import demonstration, sample_workspace
from webapp.management.announcement import agent_token
from webapp.management.commands.up import add_service_arguments, start
from webapp.management.demonstration import DemonstrationError, DemonstrationResult
from webapp.management.sample_workspace import SampleDataError
from webapp.runs.models import Run
from webapp.service.stack import AlreadyRunningError

LINE_SECONDS = 4.0
Stage = Callable[[str], demonstration.Progress]
"""A function that begins a stage of this title; the function that it returns receives the
progress."""


class Command(BaseCommand):
    help = "Starts the service, measures two training runs, loads sample data and keeps running."
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_service_arguments(parser)
        parser.add_argument("--exit", action="store_true", help="stop the service afterwards")
        parser.add_argument(
            "--sample-data", action="store_true", help="load the sample data only; train nothing"
        )
        parser.add_argument("--against", metavar="URL", help=SUPPRESS)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["against"]:
            self._demonstrate(options["against"], options)
            return
        # The supervisor adds the local address once it is known to be free.
        words = [word for word in ("exit", "sample_data") if options[word]]
        asked = [f"--{word.replace('_', '-')}" for word in words]
        again = [sys.executable, str(settings.BASE_DIR / "manage.py"), "demo", *asked, "--against"]
        try:
            start(options, then=again, exit_after=options["exit"], command=self)
        except AlreadyRunningError as running:
            self.stdout.write(f"Trimtab is already running at {running}; showing the demo there.")
            self._demonstrate(str(running), options)

    def _demonstrate(self, url: str, options: dict[str, Any]) -> None:
        console = Console(highlight=False, soft_wrap=True)
        try:
            if not options["sample_data"]:
                with _progress(console) as stage:
                    outcome = _measured(url, stage)
                _report(console, outcome)
            with _progress(console) as stage:
                _load_sample_data(url, stage)
        except (DemonstrationError, SampleDataError) as error:
            raise CommandError(str(error)) from None
        console.print(f"Sample data is ready: {url}, workspace Sample data")
        if not options["exit"]:
            sample_workspace.follow_live_run(url)


@contextmanager
def _progress(console: Console) -> Iterator[Stage]:
    """Show each stage as a bar on a terminal, and as lines elsewhere."""
    columns = (TextColumn("{task.description:<44}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:

        def stage(title: str) -> demonstration.Progress:
            if bars.disable:
                return _Lines(console, title).show
            task = bars.add_task(title, total=1.0)
            return lambda share: bars.update(task, completed=share)

        yield stage


class _Lines:
    """A stage as lines, some seconds apart."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title = console, title
        self._began = self._shown = time.monotonic()
        console.print(title)

    def show(self, share: float) -> None:
        now = time.monotonic()
        if now - self._shown >= LINE_SECONDS:
            self._shown = now
            self._console.print(f"{self._title}: {share:.0%}, {now - self._began:.0f} s")


def _measured(url: str, stage: Stage) -> DemonstrationResult:
    token = agent_token(first_workspace())
    runs = []
    for pipeline in demonstration.PIPELINES:
        done = stage(f"Training with the {pipeline} input pipeline")
        runs.append(demonstration.measure(url, token, pipeline, done))
        done(1.0)
    done = stage("Waiting for the analysis")
    runs = [demonstration.wait_for_analysis(run, done) for run in runs]
    done(1.0)
    return demonstration.outcome(runs)


def _load_sample_data(url: str, stage: Stage) -> None:
    done = stage("Loading sample data")
    sample_workspace.load(url, done)
    done(1.0)
    done = stage("Analysing sample data")
    sample_workspace.wait_for_analyses(done)
    sample_workspace.set_budget()
    done(1.0)


def _report(console: Console, outcome: DemonstrationResult) -> None:
    console.print()
    for run, pipeline in zip(outcome.runs, demonstration.PIPELINES, strict=True):
        _report_run(console, run, pipeline)
    for advised in outcome.recommendations:
        console.print(f"[bold]Recommended:[/] {advised.title}")
    console.print(f"[bold]What changed:[/] {comparison_url(*outcome.runs)}\n")


def _report_run(console: Console, run: Run, pipeline: str) -> None:
    length = run.duration.total_seconds() if run.duration else 0
    console.print(
        f"[bold]{run}[/] ({pipeline} pipeline): {length:.0f} s, {display_usd(run.cost_usd)}"
    )
    fired = run.judgements.filter(state=Judgement.FIRED)
    for finding in fired:
        console.print(f"    {finding.rule}: {finding.summary}")
    if not fired:
        console.print("    no findings")


def comparison_url(first: Run, second: Run) -> str:
    query = urlencode({"a": first.pk, "b": second.pk})
    return f"{settings.BASE_URL}{reverse('dashboard:compare')}?{query}"
