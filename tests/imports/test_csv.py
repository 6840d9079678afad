"""CSV files with a column of times: mapped columns, our own names, and hostile tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.importers.csv_table import open_recording
from advisor.importers.recording import NotImportableError, Samples
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.offline.importing import import_path

START = 1_767_225_600


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8-sig")
    return path


def read(path: Path, tally: Tally | None = None, **columns: str) -> Samples:
    recording = open_recording(
        Source.from_path(path), StatedFacts(columns=columns), tally or Tally()
    )
    (part,) = recording.parts(recording.nodes[0])
    assert isinstance(part, Samples)
    return part


def test_mapped_columns_and_those_with_our_names_become_series(tmp_path):
    text = f'Date,GPU,host.cpu_busy_pct,note\n{START},50,1.5,"a, b"\n{START + 2},,2.5,c\n'
    tally = Tally()
    part = read(written(tmp_path, text), tally, GPU="gpu0.busy_pct")

    assert part.times_ms.tolist() == [START * 1000, (START + 2) * 1000]
    assert part.cadence_ms == 2000
    assert part.columns["host.cpu_busy_pct"].tolist() == [1.5, 2.5]
    assert part.columns["gpu0.busy_pct"][0] == 50
    assert part.columns["gpu0.busy_pct"][1] != part.columns["gpu0.busy_pct"][1]
    assert dict(tally.records) == {"samples": 3}
    assert [each.first for each in tally.skipped.values()] == ["note"]


def test_what_a_person_says_of_a_column_goes_before_its_name(tmp_path):
    text = f"when,date\n{START},7\n{START + 1},8\n"
    columns = {"when": "time", "date": "host.other_count"}

    assert read(written(tmp_path, text), **columns).columns["host.other_count"].tolist() == [7, 8]
    with pytest.raises(NotImportableError, match="no column of times"):
        read(written(tmp_path, text), date="host.other_count")


@pytest.mark.parametrize(
    "first", [f"{START}", f"{START}000", f"{START}e6", f"{START * 10**9}", "2026-01-01T00:00:00Z",
              "2026-01-01 01:00:00+01:00", "2026-01-01 00:00:00"],
)  # fmt: skip
def test_times_may_be_written_in_many_ways(tmp_path, first):
    text = f"time,gpu0.busy_pct\n{first},1\n{START + 1},2\n"

    assert read(written(tmp_path, text)).times_ms.tolist() == [START * 1000, START * 1000 + 1000]


def test_seconds_since_the_begin_count_from_what_a_person_says(tmp_path):
    path = written(tmp_path, "elapsed_sec,gpu_util_pct\n0.08,0\n0.34,2\n")
    columns = {"elapsed_sec": "time", "gpu_util_pct": "gpu0.busy_pct"}
    with pytest.raises(NotImportableError, match=r"begins with '0\.08'.*--started-at"):
        read(path, **columns)
    begins = datetime(2026, 1, 1, tzinfo=UTC)
    stated = StatedFacts(columns=columns, started_at=begins)
    recording = open_recording(Source.from_path(path), stated, Tally())
    (part,) = recording.parts(recording.nodes[0])
    assert part.times_ms.tolist() == [START * 1000 + 80, START * 1000 + 340]


@pytest.mark.parametrize(
    ("text", "columns", "why"),
    [
        ("a,b\n1,2\n", {}, "no column of times"),
        ("time,b\n1,2\n", {}, "no column is a series.*Columns: time, b"),
        ("time,b\n1,2\n", {"c": "gpu0.busy_pct"}, "--column c: no column is named so"),
        ("time,b\n1,2\n", {"b": "use"}, "'use' is not a series"),
        ("time,gpu0.busy_pct\n1,2\n", {}, "no line with a time"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_fix(tmp_path, text, columns, why):
    with pytest.raises(NotImportableError, match=why):
        read(written(tmp_path, text), **columns)


def test_it_is_a_run_with_the_counts_of_its_content(tmp_path):
    lines = [f"{START + n},{n % 100},{'x' if n == 7 else n}" for n in range(100)]
    lines[20:20] = [lines[3], "no time,1,2", '"open', "1,2,3,4"]
    text = "\n".join(["time,gpu0.busy_pct,host.memory_used_bytes", *lines])

    imported = import_path(written(tmp_path, text), StatedFacts()).imported

    assert imported.format == "CSV"
    assert dict(imported.tally.records) == {"samples": 199}
    assert sum(each.count for each in imported.tally.skipped.values()) == 4


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    path = written(tmp_path_factory.mktemp("csv"), f"time,gpu0.busy_pct\n{START},1\n{text}")

    assert read(path).columns["gpu0.busy_pct"][0] == 1
