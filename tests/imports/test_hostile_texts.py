"""JSON, CSV and protobufs of unknown origin end soon, whatever they hold."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter

import pytest

from advisor.importers.recording import NotImportableError
from advisor.importers.stated_facts import StatedFacts
from advisor.offline.importing import import_path
from tests.cpu_time import is_within
from tests.imports import hostile_texts as hostile
from tests.imports import test_csv
from tests.imports.costs import cost_of


@pytest.mark.parametrize("family", ["documents", "tables", "protobufs"])
def test_200_hostile_files_take_little(family, tmp_path):
    ended: Counter[str] = Counter()

    def read() -> None:
        try:
            run = import_path(tmp_path / "read", StatedFacts())
        except NotImportableError:
            ended["refused"] += 1
        else:
            ended["skipped" if run.imported.tally.skipped else "taken"] += 1

    for what, name, body in getattr(hostile, family)():
        path = tmp_path / "read" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(body)
        cost = cost_of(read)
        shutil.rmtree(tmp_path / "read")
        assert is_within(cost.cpu_seconds, 2), what
        assert cost.peak_bytes < 200e6, what
    assert ended["refused"] > 5, ended


def test_there_are_200_of_them():
    assert len(list(hostile.every())) >= 200


@pytest.mark.parametrize("damage", ["cut off", "changed"])
def test_a_damaged_packed_table_keeps_what_came_before(damage, tmp_path):
    """The import once ended with an error of the program."""
    rows = "".join(f"{test_csv.START + n},{n * 7919 % 101}\n" for n in range(200_000))
    packed = gzip.compress(f"time,gpu0.busy_pct\n{rows}".encode())
    middle = len(packed) * 3 // 4
    body = packed[:middle] + (b"" if damage == "cut off" else b"\xff" * (len(packed) - middle))
    (tmp_path / "a.csv.gz").write_bytes(body)
    tally = import_path(tmp_path, StatedFacts()).imported.tally
    assert tally.records["samples"] > 50_000
    assert any("can't be read to their end" in each.why for each in tally.skipped.values())


def test_all_streams_of_a_packed_table_are_read(tmp_path):
    head = b"time,gpu0.busy_pct\n"
    rows = [b"%d,50\n" % (test_csv.START + n) for n in range(100)]
    body = gzip.compress(head + b"".join(rows[:50])) + gzip.compress(b"".join(rows[50:]))
    (tmp_path / "a.csv.gz").write_bytes(body)
    assert import_path(tmp_path, StatedFacts()).imported.tally.records["samples"] == 100
