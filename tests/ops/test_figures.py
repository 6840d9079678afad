"""The page of figures: a row for each promise, whatever its benchmark does."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import figures_page, trust
from bench.figures import FILE_VARIABLE, Figure, note
from bench.figures_page import Command
from bench.promises import PROMISES, Promise
from tests.running_service import CHECKOUT

STORED = next(promise for promise in PROMISES if promise.key == "stored")


def rows(page: str) -> list[list[str]]:
    """Return the columns of each row, without the head of the table."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_each_promise_has_a_row_and_its_benchmark_is_there() -> None:
    assert len({promise.key for promise in PROMISES}) == len(PROMISES)
    shown = rows(figures_page.page([], before=""))
    assert [row[:2] for row in shown] == [[each.text, "not measured"] for each in PROMISES]
    for promise in PROMISES:
        assert "|" not in promise.text
        assert importlib.util.find_spec(f"bench.{promise.bench}")


def test_each_benchmark_notes_the_figures_of_its_promises() -> None:
    for promise in PROMISES:
        if promise.bench is not None:
            code = (CHECKOUT / "bench" / f"{promise.bench}.py").read_text(encoding="utf-8")
            assert f'"{promise.key}"' in code, promise


def test_a_figure_has_its_machine_and_date_and_the_other_rows_stay() -> None:
    first = figures_page.page([Figure("stored", "2.31 bytes a sample", True)], before="")
    second = figures_page.page([Figure("wire", "3.4 bytes a sample", False, "MLflow 40")], first)
    by_promise = {row[0]: row[1:] for row in rows(second)}
    measured, kept, peer, date, machine = by_promise[STORED.text]
    assert (measured, kept, peer) == ("2.31 bytes a sample", "yes", "")
    assert len(date) == 10
    assert "cores of" in machine
    assert ["3.4 bytes a sample", "**no**", "MLflow 40"] in [row[:3] for row in by_promise.values()]
    assert len(by_promise) == len(PROMISES)


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("raise SystemExit(3)", "the benchmark failed with exit code 3"),
        ("", "the benchmark measured nothing here"),
        ("note('first', '12 s', True)", "12 s"),
    ],
)
def test_a_benchmark_that_says_nothing_has_not_kept_its_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, shown: str
) -> None:
    (tmp_path / "bench").mkdir()
    imported = "from bench.figures import note\n"
    (tmp_path / "bench" / "made_up.py").write_text(imported + code)
    (tmp_path / "bench" / "figures.py").symlink_to(CHECKOUT / "bench" / "figures.py")
    promises = (Promise("first", "One", "made_up"), Promise("second", "Two", "made_up"))
    monkeypatch.setattr(figures_page, "PROMISES", promises)
    monkeypatch.chdir(tmp_path)
    first, second = figures_page.measure_command(Command("made_up"))
    assert (first.measured, first.is_kept) == (shown, shown == "12 s")
    assert not second.is_kept


def test_the_page_is_written_by_the_command(tmp_path: Path) -> None:
    page = tmp_path / "figures.md"
    words = [sys.executable, "-m", "bench", "nothing-of-ours", "--write", str(page)]
    ended = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "no such benchmark: nothing-of-ours" in ended.stderr
    assert not page.exists()


def test_alone_a_benchmark_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    note("stored", "2.3", is_kept=True)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "file"))
    note("stored", "2.3", is_kept=True)
    assert json.loads((tmp_path / "file").read_text())["promise"] == "stored"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_figure_that_this_machine_cannot_measure_keeps_its_row() -> None:
    (promise,) = [each for each in PROMISES if each.key == "agent_real_gpu"]
    before = f"| {promise.text} | 15 CPU-s/h | yes | | | |\n"
    (row,) = [row for row in rows(figures_page.page([], before)) if row[0] == promise.text]
    assert row[1] == "15 CPU-s/h"


def test_each_part_of_trust_is_a_benchmark_that_can_be_checked_and_has_a_row() -> None:
    promised = {promise.key: promise for promise in PROMISES}
    for key in trust.PARTS.values():
        assert promised[key].bench is not None
    shown = subprocess.run(
        [sys.executable, "-m", "bench", "trust", "--help"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    unknown = subprocess.run(
        [sys.executable, "-m", "bench", "trust", "--only", "faults,nothing"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert unknown.returncode == 2
    assert "no such part: nothing" in unknown.stderr


def test_trust_sums_up_what_its_parts_counted(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = trust.Part("faults", None), trust.Part("kills", 7)
    assert second.measurement.more == ("--check", "--seed", "7")
    counted = {"lost": 1, "doubled": 2, "costs": 30, "wrong_costs": 0}
    first.figures = [Figure("nothing_lost", "3 lost", False, counts=counted)]
    second.figures = [Figure("working_workers", "50 kills", True, counts={"costs": 12})]
    said = trust.summary([first, second])
    assert said == "1 lost, 2 doubled, all 42 costs equal; broken: faults"
