"""The parts of a backup or restore as they are done: bars on a terminal, else a line each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from webapp.backup.making import Stage
from webapp.backup.rows import Progress as Done


@contextmanager
def stages(output: Any) -> Iterator[Stage]:
    console = Console(file=output, highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description:<28}"), BarColumn(), TaskProgressColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not output.isatty()
    ) as bars:

        def stage(title: str) -> Done:
            if bars.disable:
                console.print(f"{title} ...")
            task = bars.add_task(title, total=1.0)
            return lambda share: bars.update(task, completed=share)

        yield stage
