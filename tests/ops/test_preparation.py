"""The work of `manage.py up` before the first process starts: everything once, nothing twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.db import connection

from webapp.database.models import Preparation
from webapp.management import preparation


@pytest.fixture
def prepared(db: None) -> None:
    mark = preparation._rows_mark()
    Preparation.objects.update_or_create(pk=Preparation.ONLY, defaults={"mark": mark})


@pytest.mark.django_db
def test_a_database_that_nobody_prepared_is_not_current():
    Preparation.objects.all().delete()
    assert not preparation.rows_are_current()


@pytest.mark.usefixtures("prepared")
def test_a_prepared_database_is_current():
    assert preparation.rows_are_current()


@pytest.mark.usefixtures("prepared")
def test_a_migration_that_was_taken_back_is_noticed():
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'runs' AND name LIKE '0002%'")
        assert cursor.rowcount == 1
    assert not preparation.rows_are_current()


@pytest.mark.usefixtures("prepared")
def test_other_migrations_in_the_code_are_noticed(tmp_path, settings, monkeypatch):
    """The database says, as after an update, that it has what an app no longer holds, or the
    reverse.
    """
    app = tmp_path / "later_app"
    (app / "migrations").mkdir(parents=True)
    (app / "__init__.py").touch()
    (app / "migrations" / "0001_initial.py").write_text("# new\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "later_app"]
    assert not preparation.rows_are_current()


@pytest.mark.usefixtures("prepared")
def test_other_bundled_prices_are_noticed(tmp_path, settings):
    for name in ("advisor/pricing", "webapp/prices"):
        shutil.copytree(settings.BASE_DIR / name, tmp_path / name)
    settings.BASE_DIR = tmp_path
    assert preparation.rows_are_current()
    next(tmp_path.glob("advisor/pricing/tables/**/*.csv")).write_bytes(b"other prices")
    assert not preparation.rows_are_current()


@pytest.mark.django_db(transaction=True)
def test_a_database_without_tables_is_not_current(tmp_path, settings):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE database_preparation RENAME TO elsewhere")
    try:
        assert not preparation.rows_are_current()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO database_preparation")


@pytest.fixture
def source(tmp_path, settings) -> Path:
    """Return the only static file there is; where it is collected is in the settings."""
    made = tmp_path / "sources" / "page.css"
    made.parent.mkdir()
    made.write_text("a {}")
    settings.STATICFILES_DIRS = [made.parent]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATIC_ROOT = tmp_path / "static"
    hashed = {"BACKEND": "webapp.http.static_storage.HashedModulesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": hashed}
    return made


def test_static_files_are_made_again_when_a_source_has_changed(source, settings):
    assert not preparation.static_files_are_current()
    preparation.prepare_static_files()
    assert preparation.static_files_are_current()
    source.write_text("a { color: red }")
    assert not preparation.static_files_are_current()
    preparation.prepare_static_files()
    shutil.rmtree(settings.STATIC_ROOT)
    assert not preparation.static_files_are_current()


@pytest.mark.parametrize("has_mark", [True, False], ids=["with the mark", "without the mark"])
def test_static_files_that_a_power_loss_emptied_are_made_again(source, settings, has_mark):
    """The names of files are durable before their content, in any order."""
    preparation.prepare_static_files()
    collected = [path for path in settings.STATIC_ROOT.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in collected}
    for path in collected:
        if path.name != preparation.STATIC_MARK or not has_mark:
            path.write_bytes(b"")
    assert not preparation.static_files_are_current()
    preparation.prepare_static_files()
    assert preparation.static_files_are_current()
    assert {path: path.read_bytes() for path in collected} == before


def test_static_files_of_an_earlier_version_stay_for_pages_that_are_open(source, settings):
    preparation.prepare_static_files()
    before = set(settings.STATIC_ROOT.rglob("page.*.css"))
    source.write_text("a { color: red }")
    preparation.prepare_static_files()
    assert before < set(settings.STATIC_ROOT.rglob("page.*.css"))
