"""What `manage.py up` does before the first process starts: everything once, nothing twice."""

from __future__ import annotations

import shutil

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
    """As after an update: the database says it has what an app no longer holds, or the reverse."""
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


def test_static_files_are_made_again_when_a_source_has_changed(tmp_path, settings):
    source = tmp_path / "sources" / "page.css"
    source.parent.mkdir()
    source.write_text("a {}")
    settings.STATICFILES_DIRS = [source.parent]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATIC_ROOT = tmp_path / "static"
    assert not preparation.static_files_are_current()
    preparation.prepare_static_files()
    assert preparation.static_files_are_current()
    source.write_text("a { color: red }")
    assert not preparation.static_files_are_current()
    preparation.prepare_static_files()
    shutil.rmtree(settings.STATIC_ROOT)
    assert not preparation.static_files_are_current()
