"""The confined half of a conversion: unpack and convert what was fetched."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from advisor.importers.bounds import BOUNDS, NoSpaceError
from advisor.importers.process import confinement, conversion_result, refusal
from advisor.importers.process.task import Places, Task
from advisor.importers.recording import NotImportableError
from advisor.importers.source import Source
from advisor.importers.tally import Tally
from advisor.store.folder import FolderStore

CONVERTED, FAILED, AWAY = 0, 1, 2
"""Exit codes. What refused the files has written why, and what may take them later, too."""

Say = Callable[[str], object]


def read_confined(task: Task, places: Places, tally: Tally, say: Say) -> int:
    """Convert within the task's limits. Returns the exit code of the process, which then ends."""
    confinement.leave_network()
    from advisor.importers import archive, conversion

    _load_before()
    try:
        confinement.confine(task.limits, places.folder)
        if task.what == "archive":
            say("Unpacking")
            bounds = replace(BOUNDS, unpacked_bytes=task.limits.unpacked_bytes)
            with places.archive.open("rb") as packed:
                archive.unpack(packed, places.content, tally, bounds=bounds)
        say("Converting")
        if task.what == "profile":
            result = conversion.operators_of(Source.from_path(_only_file(places.content)))
        else:
            result = conversion.convert(
                FolderStore(places.objects),
                Source(places.content, task.name),
                task.stated,
                task.run_id,
                tally=tally,
            )
        conversion_result.write(result, places.converted)
    except NotImportableError as error:
        refusal.write(str(error), tally, places.refused)
        return AWAY if isinstance(error, NoSpaceError) else CONVERTED
    except MemoryError:
        needed = task.limits.memory_bytes // 10**6
        refusal.write(f"it needs more than {needed:,} MB of memory", tally, places.refused)
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        return FAILED
    return CONVERTED


def _only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def _load_before() -> None:
    """Load what readers load when they need it: afterwards no library may be linked."""
    import sqlite3  # noqa: F401

    import pandas as pd
    import pyarrow.parquet  # noqa: F401

    pd.Timestamp(0, tz="UTC")
