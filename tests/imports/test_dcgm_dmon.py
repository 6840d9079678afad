"""The output of `dcgmi dmon`: heads that repeat, lines without times, slices, and damage."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from advisor.__main__ import main
from advisor.importers.dcgm_dmon import DcgmDmonRecording, open_recording
from advisor.importers.recording import NotImportableError, Samples
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.offline.importing import import_path

STARTED = datetime(2026, 11, 24, 8, tzinfo=UTC)
START_MS = round(STARTED.timestamp() * 1000)
STATED = StatedFacts(started_at=STARTED, interval_seconds=0.5)
HEAD = """\
#Entity   GPUTL   SMACT        POWER        FBUSD        GRACT
ID                             W
"""
PRINTED = f"""\
{HEAD}GPU 1     90      0.500        300.125      1024         0.9
GPU 0     N/A     N/A          100.0        512          0.1
GPU-I 3   N/A     0.250        N/A          N/A          0.2
{HEAD}GPU 1     80      1.000        310.000      2048         0.9
GPU 0     20      0.250        N/A          512          0.1


dmon was stopped do to receiving a signal
"""


def written(folder: Path, text: str = PRINTED, name: str = "gpus.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def read(path: Path, stated: StatedFacts = STATED, tally: Tally | None = None) -> DcgmDmonRecording:
    return open_recording(Source.from_path(path), stated, tally or Tally())


def part(recording: DcgmDmonRecording) -> Samples:
    (found,) = recording.parts(recording.nodes[0])
    assert isinstance(found, Samples)
    return found


def test_a_tick_has_all_gpus_whatever_their_order(tmp_path):
    tally = Tally()
    found = part(read(written(tmp_path), tally=tally))

    assert (found.times_ms - START_MS).tolist() == [0, 500]
    assert found.cadence_ms == 500
    values = {
        name: [None if v != v else v for v in values.tolist()]
        for name, values in found.columns.items()
    }
    assert values == {
        "gpu0.busy_pct": [None, 20],
        "gpu0.sm_active_pct": [None, 25],
        "gpu0.power_watts": [100, None],
        "gpu0.memory_used_bytes": [512 * 2**20] * 2,
        "gpu1.busy_pct": [90, 80],
        "gpu1.sm_active_pct": [50, 100],
        "gpu1.power_watts": [300.125, 310],
        "gpu1.memory_used_bytes": [2**30, 2**31],
    }
    assert dict(tally.records) == {"samples": 13}
    assert {(each.what, each.first): each.count for each in tally.skipped.values()} == {
        ("columns", "GRACT"): 1,
        ("lines", "GPU-I"): 1,
    }


@pytest.mark.parametrize(
    "form", ["2026-11-24T08:00:{:02d}+0000", "[2026-11-24 08:00:{:02d}]", "17955072{:02d}.25"]
)
def test_lines_may_begin_with_their_times(tmp_path, form):
    times = [form.format(second) for second in (0, 2, 4)]
    heads = "".join(f"{times[0]} {line}\n" for line in HEAD.splitlines())
    lines = "".join(f"{at} GPU 0 50 0.5 100 1 1\n" for at in times)
    found = part(read(written(tmp_path, heads + lines), StatedFacts()))

    assert ((found.times_ms - START_MS) // 1000).tolist() == [0, 2, 4]
    assert found.cadence_ms == 2000


def test_without_times_and_without_an_interval_it_says_what_to_do(tmp_path):
    with pytest.raises(NotImportableError, match="--interval-seconds"):
        read(written(tmp_path), StatedFacts())
    tally = Tally()
    imported = datetime(2026, 11, 25, tzinfo=UTC)
    recording = read(
        written(tmp_path), StatedFacts(interval_seconds=1, imported_at=imported), tally
    )
    assert recording.nodes[0].started_ms == imported.timestamp() * 1000
    assert any("when it was imported" in note for note in tally.notes)


@pytest.mark.parametrize(
    "text",
    [
        "#Entity  XIDER\nID\nGPU 0  0\n",
        "#Entity  GPUTL\nID\n",
        "#Entity  GPUTL\nGPU 99  1\nGPU x  1\nGPU 0  1  2\n",
    ],
)
def test_what_has_no_line_or_no_series_is_refused(text, tmp_path):
    with pytest.raises(NotImportableError):
        import_path(written(tmp_path, text), STATED)


def test_broken_lines_lose_only_themselves(tmp_path):
    lines = [f"GPU 0  {n}  0.5  100  1  1\n" for n in range(50)]
    lines[7], lines[20] = "GPU 0  7  0.", "garbage\n"
    run = import_path(written(tmp_path, HEAD + "".join(lines)), STATED)

    assert run.imported.format == "dcgmi dmon"
    # The line that was cut joins the one after it.
    assert dict(run.imported.tally.records) == {"samples": 47 * 4}
    assert sum(each.count for each in run.imported.tally.skipped.values()) == 1 + 2
    assert run.timeline.duration_seconds == 46 * 0.5


def test_the_options_say_when_its_lines_were_printed(tmp_path, capsys):
    path = str(written(tmp_path))
    options = ("--started-at", "2026-11-24T08:00Z", "--interval-seconds", "30")
    assert main(["import", path, *options]) == 0
    assert "2026-11-24 08:00 to 2026-11-24 08:00 UTC, 30 s" in capsys.readouterr().out
    for wrong in (("--started-at", "now"), ("--interval-seconds", "nan"),
                  ("--interval-seconds", "-1")):  # fmt: skip
        assert main(["import", path, *wrong]) == 2
        assert "is no time" in (said := capsys.readouterr().err) or "between" in said


def test_a_recording_of_nvidia_smi_beside_it_is_read_first(tmp_path):
    written(tmp_path)
    written(tmp_path, "timestamp, index, utilization.gpu [%]\n2026/11/24 08:00:00.000, 0, 5 %\n"
            "2026/11/24 08:00:01.000, 0, 6 %\n", "smi.csv")  # fmt: skip
    assert import_path(tmp_path, STATED).imported.format == "nvidia-smi"
