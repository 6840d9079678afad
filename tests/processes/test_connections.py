"""A real worker keeps its connections to the database between tasks."""

from __future__ import annotations

import time

import pytest

from tests.running_service import wait_until

pytestmark = pytest.mark.processes


def test_a_connection_to_the_database_outlives_its_task(service):
    database = str(service.data_dir / "trimtab.sqlite3")

    def is_open() -> bool:
        pool = service.part("worker").children()
        return any(database == file.path for child in pool for file in child.open_files())

    wait_until(is_open, 60, "a task has read rows")
    for _ in range(10):
        time.sleep(0.2)
        assert is_open()
