"""Brings rows and static files up to date before the service starts, and knows when they are.

To find out costs milliseconds; to do it again costs seconds, mostly for loading every app.
"""

from __future__ import annotations

import hashlib
import shutil
import warnings
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection

from webapp.service.browser_libraries import FILES

STATIC_MARK = ".made-from"


def prepare() -> None:
    """Bring rows and static files up to date. Raises what `migrate` and `collectstatic` raise."""
    if not rows_are_current():
        prepare_rows()
    if not static_files_are_current():
        prepare_static_files()


# Rows


def rows_are_current() -> bool:
    """Return whether this database has been brought up to date by this code, and is still what it
    was.

    The mark is a row of the database, so another one, or one that was put back, has its own.
    """
    try:
        with warnings.catch_warnings(), connection.cursor() as cursor:
            # Django warns of queries before apps are loaded; this one is there to do without them.
            warnings.simplefilter("ignore", RuntimeWarning)
            cursor.execute("SELECT mark FROM database_preparation")
            return [mark for (mark,) in cursor.fetchall()] == [_rows_mark()]
    except DatabaseError:
        return False


def prepare_rows() -> None:
    """Make tables, and the rows that come with this version."""
    django.setup()
    from webapp.database.models import Preparation
    from webapp.database.tasks import optimise_database

    call_command("migrate", interactive=False, verbosity=0)
    optimise_database()
    Preparation.objects.update_or_create(pk=Preparation.ONLY, defaults={"mark": _rows_mark()})


def _rows_mark() -> str:
    """Return the mark of the code that makes rows, and of the migrations that this database says it
    has.
    """
    digest = hashlib.sha256()
    for path in _migrations():
        digest.update(path.read_bytes())
    for path in _files_below(settings.BASE_DIR / "advisor" / "pricing"):
        digest.update(path.read_bytes())
    digest.update((settings.BASE_DIR / "webapp" / "prices" / "bundled.py").read_bytes())
    with connection.cursor() as cursor:
        cursor.execute("SELECT app, name FROM django_migrations ORDER BY app, name")
        for applied in cursor.fetchall():
            digest.update(repr(tuple(applied)).encode())
    return digest.hexdigest()


def _migrations() -> Iterator[Path]:
    for app in settings.INSTALLED_APPS:
        spec = find_spec(app)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield from sorted(Path(folder, "migrations").glob("*.py"))


def _files_below(folder: Path) -> Iterator[Path]:
    """Return the files, without what Python compiles beside them."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return (path for path in found if path.suffix != ".pyc")


# Static files


def static_files_are_current() -> bool:
    """Return whether the static files were made from the files that are here now, and are still
    whole.
    """
    return _mark() == [_static_mark(), _made_mark()]


def prepare_static_files() -> None:
    """Make the static files. Those of an earlier version stay, for pages that are open."""
    django.setup()
    if _mark()[1:] != [_made_mark()]:
        # A power loss keeps names without content, and what has a name isn't made again.
        shutil.rmtree(settings.STATIC_ROOT, ignore_errors=True)
    _mark_file().unlink(missing_ok=True)
    call_command("collectstatic", interactive=False, verbosity=0)
    _mark_file().write_text(f"{_static_mark()}\n{_made_mark()}", encoding="ascii")


def _mark() -> list[str]:
    """Return the marks of their sources and of themselves; nothing if they were never made."""
    try:
        return _mark_file().read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _mark_file() -> Path:
    """Return the file of the mark. It is among the static files, so that it goes when they go."""
    return Path(settings.STATIC_ROOT) / STATIC_MARK


def _static_mark() -> str:
    digest = hashlib.sha256(django.__version__.encode())
    for path in _static_sources():
        facts = path.stat()
        digest.update(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _made_mark() -> str:
    """Return the mark of what was made: what loses its content by a power loss loses its size."""
    digest = hashlib.sha256()
    for path in _files_below(Path(settings.STATIC_ROOT)):
        if path.name != STATIC_MARK:
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
    return digest.hexdigest()


def _static_sources() -> Iterable[Path]:
    base = settings.BASE_DIR
    libraries = [base / "node_modules" / name for name in FILES.values()]
    own = [path for folder in settings.STATICFILES_DIRS for path in _files_below(Path(folder))]
    code = base / "webapp" / "http" / "static_storage.py"
    return [code, *own, *(path for path in libraries if path.exists())]
