"""What nvidia-smi prints: a query as CSV with units and without, dmon, and damaged lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.importers.nvidia_smi import opened, recognises
from advisor.importers.recording import NotImportableError, Samples
from advisor.importers.source import Source
from advisor.importers.stated import Stated
from advisor.importers.tally import Tally
from advisor.offline.importing import import_path

QUERY = """timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], pstate
2026/01/01 00:00:00.101, 0, NVIDIA A10G, 90 %, 1024 MiB, 150.25 W, P0
2026/01/01 00:00:00.104, 1, NVIDIA A10G, 10 %, 512 MiB, [N/A], P0
2026/01/01 00:00:01.101, 0, NVIDIA A10G, 80 %, 1025 MiB, 140.00 W, P0
2026/01/01 00:00:01.104, 1, NVIDIA A10G, [Not Supported], 512 MiB, 60.00 W, P0
"""
DMON = """#Date       Time        gpu   pwr gtemp mtemp    sm   mem  mclk  pclk    fb
#YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %   MHz   MHz    MB
 20260101   00:00:00      0    43    35     -     7     1  5000  1410   100
 20260101   00:00:00      1    44    36     -     -     2  5000  1410   200
#Date       Time        gpu   pwr gtemp mtemp    sm   mem  mclk  pclk    fb
#YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %   MHz   MHz    MB
 20260101   00:00:01      0    45    35     -     9     1  5000  1410   100
"""


def read(path: Path, tally: Tally | None = None) -> list[Samples]:
    recording = opened(Source.at(path), Stated(), tally or Tally())
    return list(recording.parts(recording.nodes[0]))  # type: ignore[arg-type]


def written(folder: Path, text: str, name: str = "gpus.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def values(part: Samples) -> dict[str, list[float | None]]:
    return {
        name: [None if each != each else each for each in column.tolist()]
        for name, column in part.columns.items()
    }


def test_a_query_is_read_with_its_units(tmp_path):
    tally = Tally()
    (part,) = read(written(tmp_path, QUERY), tally)

    assert part.cadence_ms == 1000
    assert part.times_ms.tolist() == [1_767_225_600_101, 1_767_225_601_101]
    assert values(part) == {
        "gpu0.busy_pct": [90, 80],
        "gpu0.memory_used_bytes": [1024 * 2**20, 1025 * 2**20],
        "gpu0.power_watts": [150.25, 140],
        "gpu1.busy_pct": [10, None],
        "gpu1.memory_used_bytes": [512 * 2**20, 512 * 2**20],
        "gpu1.power_watts": [None, 60],
    }
    assert dict(tally.records) == {"samples": 10}
    assert [(each.what, each.first) for each in tally.skipped.values()] == [("columns", "pstate")]


def test_without_units_and_numbers_it_is_the_same(tmp_path):
    bare = QUERY.replace(" [%]", "").replace(" [MiB]", "").replace(" [W]", "")
    bare = bare.replace(" MiB,", ",").replace(" %,", ",").replace(" W,", ",")
    by_uuid = bare.replace("index", "uuid").replace(", 0, ", ", GPU-aa, ")
    by_uuid = by_uuid.replace(", 1, ", ", GPU-bb, ")

    (units,), (none,), (uuids,) = (read(written(tmp_path, t)) for t in (QUERY, bare, by_uuid))

    assert values(units) == values(none) == values(uuids)


def test_dmon_is_read_past_its_repeated_heads(tmp_path):
    tally = Tally()
    (part,) = read(written(tmp_path, DMON, "dmon.txt"), tally)

    assert values(part)["gpu0.busy_pct"] == [7, 9]
    assert values(part)["gpu1.busy_pct"] == [None, None]
    assert values(part)["gpu1.memory_used_bytes"] == [200 * 2**20, None]
    assert {each.first for each in tally.skipped.values()} == {"mtemp"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (QUERY.replace("timestamp", "when"), "add `timestamp` to --query-gpu"),
        (QUERY.replace("index", "count"), "add `index` to --query-gpu"),
        (DMON.replace("#Date       Time       ", "#").replace("#YYYY", "# "), "dmon -o DT"),
        (QUERY.splitlines()[0], "no line with a time"),
    ],
)
def test_what_is_missing_is_named_with_its_fix(tmp_path, text, why):
    with pytest.raises(NotImportableError, match=why):
        read(written(tmp_path, text))


def test_damaged_lines_lose_only_themselves(tmp_path):
    lines = QUERY.splitlines()
    damaged = [*lines[:3], "2026/01/01 00:00:0", "", "x,y", lines[1], *lines[3:], lines[4]]
    tally = Tally()
    (part,) = read(written(tmp_path, "\n".join(damaged)), tally)

    assert values(part)["gpu0.busy_pct"] == [90, 80]
    assert sum(each.count for each in tally.skipped.values() if each.what == "lines") == 4


def test_the_run_has_as_many_gpus_as_the_file_names(tmp_path):
    imported = import_path(written(tmp_path, QUERY), Stated()).imported
    (node,) = imported.nodes

    assert imported.format == "nvidia-smi"
    assert len(node.declaration.node.gpus) == 2
    assert any("UTC" in note for note in imported.tally.notes)


@given(cut=st.integers(0, len(QUERY)), junk=st.text(max_size=40), at=st.integers(0, len(QUERY)))
def test_whatever_was_done_to_a_file_it_is_read_or_refused(tmp_path_factory, cut, junk, at):
    text = (QUERY[:at] + junk + QUERY[at:])[: cut + len(junk)]
    path = written(tmp_path_factory.mktemp("smi"), text)

    if recognises(Source.at(path)):
        try:
            parts = read(path)
        except NotImportableError:
            return
        times = [time for part in parts for time in part.times_ms.tolist()]
        assert times == sorted(set(times))
