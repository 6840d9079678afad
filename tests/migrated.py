"""An SQLite database with all tables and nothing in them: made once, by the first that asks.

Migrating takes some seconds of CPU, and a test run needs such a database a dozen times.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

FOLDER_VARIABLE = "TRIMTAB_TEST_FOLDER"
"""Names a folder of this test run; its workers and their services find it in the environment."""
PREPARE = """
import os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
from webapp.management.preparation import prepare_rows
prepare_rows()
"""
"""The program that prepares rows like `manage.py up`, which finds nothing to do afterwards."""
_CHECKOUT = Path(__file__).resolve().parent.parent
_SERVICE_VARIABLES = ("DATABASE_URL", "REDIS_URL", "OBJECTS_URL")


def migrated_database() -> Path:
    """Return the file. Copy it: whoever comes next wants it empty."""
    folder = Path(os.environ.get(FOLDER_VARIABLE) or _own_folder().name) / "migrated"
    folder.mkdir(mode=0o700, exist_ok=True)
    database = folder / "trimtab.sqlite3"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not database.exists():
            _migrate(folder / "data")
            (folder / "data" / database.name).rename(database)
    return database


@cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for what starts services outside of the tests."""
    return tempfile.TemporaryDirectory(prefix="trimtab-migrated-")


def _migrate(data_dir: Path) -> None:
    inherited = {k: v for k, v in os.environ.items() if k not in _SERVICE_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", PREPARE],
        cwd=_CHECKOUT,
        env=inherited | {"TRIMTAB_DATA_DIR": str(data_dir)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
