"""The output of nvidia-smi: a query as CSV with units and without, dmon, and damaged lines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.importers.nvidia_smi import open_recording, recognises
from advisor.importers.recording import NotImportableError, Samples
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.offline.importing import import_path
from tests.imports.reported import reported

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
    recording = open_recording(Source.from_path(path), StatedFacts(), tally or Tally())
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
        (DMON.replace("#Date       Time       ", "#").replace("#YYYY", "# "), "dmon -o DT"),
        (QUERY.splitlines()[0], "no line with a time"),
    ],
)
def test_what_is_missing_is_named_with_its_fix(tmp_path, text, why):
    with pytest.raises(NotImportableError, match=why):
        read(written(tmp_path, text))


UNTIMED = """# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk
# Idx      W      C      C      %      %      %      %    MHz    MHz
    0    119     59      -    100      0      0      0   6800   1665
    2    219     74      -      -      0      0      0   9251   1695
    0    120     59      -     90      0      0      0   6800   1665
    2    220     74      -      5      0      0      0   9251   1695
"""


@pytest.mark.parametrize("text", [UNTIMED, UNTIMED + UNTIMED[: UNTIMED.index("    0")]])
def test_dmon_without_times_counts_at_the_interval_that_is_stated(text, tmp_path):
    begins = datetime(2026, 1, 1, tzinfo=UTC)
    stated = StatedFacts(interval_seconds=2.0, started_at=begins)
    source, tally = Source.from_path(written(tmp_path, text, "dmon.txt")), Tally()
    recording = open_recording(source, stated, tally)
    (part,) = recording.parts(recording.nodes[0])
    assert part.times_ms.tolist() == [1_767_225_600_000, 1_767_225_602_000]
    assert values(part)["gpu0.busy_pct"] == [100, 90]
    assert values(part)["gpu1.busy_pct"] == [None, 5]
    assert "The lines have no times" in " ".join(tally.notes)
    with pytest.raises(
        NotImportableError, match=r"--interval-seconds.*or record with `dmon -o DT`"
    ):
        read(written(tmp_path, text, "dmon.txt"))


@pytest.mark.parametrize(
    "times",
    [("1764189195", "1764189255"), ("2025-11-26T22:33:15+02:00", "2025-11-26T22:34:15+02:00")],
)
def test_times_that_need_no_zone_are_those_of_a_query(times, tmp_path):
    tally = Tally()
    text = "timestamp,memory.used,memory.total,utilization.gpu\n"
    text += f"{times[0]},4846, 24576, 0\n{times[1]},10544, 24576, 93\n"
    (part,) = read(written(tmp_path, text), tally)
    assert part.times_ms.tolist() == [1_764_189_195_000, 1_764_189_255_000]
    assert values(part)["gpu0.busy_pct"] == [0, 93]
    assert "UTC" not in " ".join(tally.notes)


def test_damaged_lines_lose_only_themselves(tmp_path):
    lines = QUERY.splitlines()
    damaged = [*lines[:3], "2026/01/01 00:00:0", "", "x,y", lines[1], *lines[3:], lines[4]]
    tally = Tally()
    (part,) = read(written(tmp_path, "\n".join(damaged)), tally)

    assert values(part)["gpu0.busy_pct"] == [90, 80]
    assert sum(each.count for each in tally.skipped.values() if each.what == "lines") == 4


def test_the_run_has_as_many_gpus_as_the_file_names(tmp_path):
    imported = import_path(written(tmp_path, QUERY), StatedFacts()).imported
    (node,) = imported.nodes

    assert imported.format == "nvidia-smi"
    assert len(node.declaration.node.gpus) == 2
    assert any("UTC" in note for note in imported.tally.notes)


UNNAMED = [line.replace(", 0, NVIDIA", ", NVIDIA").replace(", 1, NVIDIA", ", NVIDIA")
           for line in QUERY.replace("index, ", "").splitlines()]  # fmt: skip


def test_gpus_without_names_are_told_by_their_order(tmp_path):
    tally = Tally()
    (part,) = read(written(tmp_path, "\n".join(UNNAMED)), tally)
    (named,) = read(written(tmp_path, QUERY))
    assert values(part) == values(named)
    assert any("the 2 lines of each time count as GPUs in their order" in n for n in tally.notes)


def test_a_row_for_each_time_is_gpu_0(tmp_path):
    tally = Tally()
    (part,) = read(written(tmp_path, "\n".join(UNNAMED[:2] + UNNAMED[3:4])), tally)
    assert values(part)["gpu0.busy_pct"] == [90, 80]
    assert not any(name.startswith("gpu1.") for name in part.columns)
    assert any("each line is GPU 0" in note for note in tally.notes)


def test_rows_that_come_irregularly_are_one_gpus(tmp_path):
    """A script that sleeps for other times between them has no second GPU."""
    at = [0, 1, 2, 12, 13, 23, 24, 25, 26, 36, 46, 47]
    rows = [f"2026/01/01 00:00:{second:02}.000, 50 %" for second in at]
    (part,) = read(written(tmp_path, "\n".join(["timestamp, utilization.gpu [%]", *rows])))
    assert values(part) == {"gpu0.busy_pct": [50] * len(at)}


@pytest.mark.parametrize("said", ["[N/A]", "[Not Supported]", "ERR!", "[GPU is lost]", "N/A"])
def test_a_gpu_that_a_row_names_is_there_with_its_use_unknown(said, tmp_path):
    rows = [f"2026/01/01 00:00:{second:02}.000, {gpu}, NVIDIA A100, {said}, {said}, 40960 MiB"
            for second in range(30) for gpu in (0, 1)]  # fmt: skip
    head = "timestamp, index, name, utilization.gpu [%], power.draw [W], memory.used [MiB]"
    path = written(tmp_path, "\n".join([head, *rows]))
    imported = import_path(path, StatedFacts()).imported
    (node,) = imported.nodes
    assert [gpu.model for gpu in node.declaration.node.gpus] == ["NVIDIA A100"] * 2
    assert node.stored.series == {"gpu0.memory_used_bytes", "gpu1.memory_used_bytes"}


def test_a_lost_gpu_is_counted_and_named(tmp_path):
    lost = ", ".join(["[GPU is lost]"] * 2)
    text = "timestamp, index, name, utilization.gpu [%], memory.total [MiB]\n"
    for second in range(5):
        text += f"2026/01/01 00:00:0{second}.000, 0, NVIDIA A100, 5 %, 40960 MiB\n"
        text += f"2026/01/01 00:00:0{second}.020, 1, NVIDIA A100, {lost}\n"
    (node,) = import_path(written(tmp_path, text), StatedFacts()).imported.nodes
    assert [(gpu.model, gpu.memory_bytes) for gpu in node.declaration.node.gpus] == [
        ("NVIDIA A100", 40960 * 2**20),
        ("NVIDIA A100", 0),
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("text", [QUERY, DMON])
def test_it_is_read_however_it_was_saved(text, encoding, tmp_path):
    name = "gpus.csv" if text == QUERY else "gpus.txt"
    (plain,) = read(written(tmp_path, text, name))
    (tmp_path / name).write_bytes(text.encode(encoding))
    (saved,) = read(tmp_path / name)
    assert values(saved) == values(plain)


@pytest.mark.parametrize(
    "said",
    [
        "2026-01-13 00:00:{:02}.500",
        "2026-01-13T00:00:{:02}.500",
        "13.01.2026 00:00:{:02}.500",
        "13/01/2026 00:00:{:02}.500",
        "01/13/2026 00:00:{:02}.500",
    ],
)
def test_dates_are_read_as_other_programs_write_them(said, tmp_path):
    rows = [f"{said.format(second)};0;7 %;12,5 W" for second in range(3)]
    tally = Tally()
    text = "\n".join(["timestamp;index;utilization.gpu [%];power.draw [W]", *rows])
    (part,) = read(written(tmp_path, text), tally)
    assert part.times_ms.tolist() == [1_768_262_400_500 + 1000 * n for n in range(3)]
    assert values(part)["gpu0.power_watts"] == [12.5] * 3
    assert not any("month/day" in note for note in tally.notes)


def test_a_date_that_may_be_two_is_said_to_be_read_as_one(tmp_path):
    rows = [f"02/01/2026 00:00:0{second}, 0, 7 %" for second in range(3)]
    tally = Tally()
    text = "\n".join(["timestamp, index, utilization.gpu [%]", *rows])
    (part,) = read(written(tmp_path, text), tally)
    assert part.times_ms[0] == 1_769_904_000_000
    assert any("month/day/year" in note for note in tally.notes)


def test_a_number_that_no_gpu_has_is_unknown(tmp_path):
    damaged = QUERY.replace("1024 MiB", f"{'9' * 33} MiB")
    (part,) = read(written(tmp_path, damaged))
    assert values(part)["gpu0.memory_used_bytes"] == [None, 1025 * 2**20]


def test_another_querys_head_in_between_counts_from_there(tmp_path):
    later = "timestamp, index, power.draw [W]\n2026/01/01 00:00:02.101, 0, 99.5 W\n"
    (part,) = read(written(tmp_path, "warning: persistence mode is off\n" + QUERY + later))
    assert values(part)["gpu0.busy_pct"] == [90, 80, None]
    assert values(part)["gpu0.power_watts"] == [150.25, 140, 99.5]


@pytest.mark.parametrize("name", ["na", "mig", "gpulost", "err", "noindex", "bom", "utf16"])
def test_reported_recordings_have_their_two_gpus(name, tmp_path):
    (node,) = import_path(reported(f"{name}.csv"), StatedFacts()).imported.nodes
    assert [gpu.model for gpu in node.declaration.node.gpus] == ["NVIDIA A100"] * 2
    expected = {"gpu0.sm_clock_mhz", "gpu0.memory_used_bytes"}
    assert expected <= node.stored.series
    assert ("gpu0.busy_pct" in node.stored.series) == (name not in ("na", "mig", "err"))


@given(cut=st.integers(0, len(QUERY)), junk=st.text(max_size=40), at=st.integers(0, len(QUERY)))
def test_whatever_was_done_to_a_file_it_is_read_or_refused(tmp_path_factory, cut, junk, at):
    text = (QUERY[:at] + junk + QUERY[at:])[: cut + len(junk)]
    path = written(tmp_path_factory.mktemp("smi"), text)

    if recognises(Source.from_path(path)):
        try:
            parts = read(path)
        except NotImportableError:
            return
        times = [time for part in parts for time in part.times_ms.tolist()]
        assert times == sorted(set(times))
