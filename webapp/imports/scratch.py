"""The folders in which imports are fetched, unpacked and converted.

What was fetched from S3 outlives a worker that is killed: the next one continues from there.
"""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

from django.conf import settings

from advisor.importers.process.task import Places
from webapp import private_files
from webapp.background import conditions
from webapp.imports.models import Import


def folder_of(row: Import) -> Path:
    """Return the folder of this import, made if it is new."""
    folder = Path(settings.IMPORTS_DIR, str(row.pk))
    private_files.make_folder(folder.parent)
    private_files.make_folder(folder)
    return folder


def remove(row: Import) -> None:
    """Call when nothing more is read from it."""
    shutil.rmtree(Path(settings.IMPORTS_DIR, str(row.pk)), ignore_errors=True)


def tidy() -> None:
    """Remove what is left of imports that nobody carries on with."""
    try:
        found = [path for path in Path(settings.IMPORTS_DIR).iterdir() if path.name.isdecimal()]
    except FileNotFoundError:
        return
    rows = Import.objects.filter(conditions.is_open(), pk__in=[int(path.name) for path in found])
    going = set(rows.values_list("pk", flat=True)) if found else set()
    for path in found:
        if int(path.name) not in going and not _is_worked_in(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_worked_in(folder: Path) -> bool:
    try:
        with Places(folder).lock.open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
