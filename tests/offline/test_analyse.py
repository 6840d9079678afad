"""`python -m advisor analyse RUN_DIR`: a run's cost, findings and advice without a service."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest

from advisor.__main__ import main
from tests.offline.folders import as_files, as_spool, command, document, simulated

PUBLISHED_USD = Decimal("6.15672")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the first of the published runs, as files."""
    folder = tmp_path_factory.mktemp("run")
    as_files(simulated()[0], folder / "deep" / "down")
    return folder


def test_it_prices_and_judges_a_folder_of_segments(folder):
    report = document(folder)
    assert Decimal(report["cost_usd"]) == PUBLISHED_USD
    assert sum(Decimal(part["usd"]) for part in report["cost_parts"]) == PUBLISHED_USD
    assert sum(Decimal(line["usd"]) for line in report["ledger"]) == PUBLISHED_USD
    assert (report["state"], report["missing_segments"]) == ("finished", 0)
    states = {each["rule"]: each["state"] for each in report["judgements"]}
    assert states["input_bound"] == states["unused_gpus"] == "fired"
    kinds = [each["kind"] for each in report["recommendations"]]
    assert kinds == [
        "change_instance_type",
        "shorten_start_up",
        "fix_input_pipeline",
        "raise_batch",
    ]


def test_it_prints_the_same_as_a_readable_table(folder):
    done = command(folder)
    assert done.returncode == 0, done.stderr
    for words in (
        "finished",
        "$6.16",
        "ml.p3.8xlarge",
        "input_bound",
        "unused GPUs",
        "ml.p3.16xlarge instead of 3",
        "check that your region still offers it",
        "2. Shorten the start-up",
    ):
        assert words in done.stdout
    assert "$2.05" in done.stdout, "of each node"


def test_it_reads_the_spool_that_the_agent_writes(tmp_path, capsys):
    as_spool(simulated()[:2], tmp_path)
    assert main(["analyse", str(tmp_path)]) == 2
    listed = capsys.readouterr().err
    runs = simulated()[:2]
    assert all(str(run.run_id) in listed and run.job in listed for run in runs)
    report = document(tmp_path, "--run", runs[0].run_id)
    assert Decimal(report["cost_usd"]) == PUBLISHED_USD
    assert report["nodes"][0]["instance_type"] == "ml.p3.8xlarge"


def test_what_was_not_declared_can_be_stated(tmp_path):
    as_files(simulated()[0], tmp_path, declared=False)
    unknown = document(tmp_path)
    assert unknown["cost_usd"] is None
    assert len(unknown["missing_prices"]) == 3
    stated = document(tmp_path, "--instance-type", "ml.p3.8xlarge", "--region", "us-west-2")
    assert Decimal(stated["cost_usd"]) == PUBLISHED_USD


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_text("text"), "is not a folder"),
        (lambda path: path.mkdir(), "holds no samples"),
    ],
)
def test_it_says_what_is_wrong_with_a_folder(tmp_path, capsys, make, reason):
    path = tmp_path / "run"
    make(path)
    assert main(["analyse", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert str(path) in said.err
    assert reason in said.err


def test_an_unreadable_segment_is_named_and_the_rest_is_analysed(tmp_path, capsys):
    segments = as_files(simulated()[0], tmp_path)
    segments[1].write_bytes(b"not a segment")
    assert main(["analyse", str(tmp_path), "--json"]) == 3
    said = capsys.readouterr()
    assert str(segments[1]) in said.err
    report = json.loads(said.out)
    assert report["missing_segments"] == 1
    assert report["ledger"]


def test_without_one_readable_segment_nothing_is_analysed(tmp_path, capsys):
    (tmp_path / "a.segment").write_bytes(b"\x1f\x8b broken")
    assert main(["analyse", str(tmp_path)]) == 2
    assert "a.segment" in capsys.readouterr().err


def test_a_file_that_is_no_spool_is_named(tmp_path, capsys):
    (tmp_path / "spool.sqlite3").write_bytes(b"no database at all, but long enough to be one" * 9)
    assert main(["analyse", str(tmp_path)]) == 2
    assert "spool.sqlite3" in capsys.readouterr().err


def test_an_empty_spool_says_where_the_samples_went(tmp_path, capsys):
    as_spool([], tmp_path)
    assert main(["analyse", str(tmp_path)]) == 2
    assert "leave the spool 15 minutes after" in capsys.readouterr().err


def test_a_run_that_is_not_there_is_refused(folder, capsys):
    assert main(["analyse", str(folder), "--run", str(uuid4())]) == 2
    assert str(simulated()[0].run_id) in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["analyse", str(folder), "--run", "first"])
    assert stopped.value.code == 2


def test_the_spool_is_left_as_it_was(tmp_path):
    as_spool(simulated()[:1], tmp_path)
    path = tmp_path / "spool.sqlite3"
    before = path.read_bytes()
    document(tmp_path)
    assert path.read_bytes() == before
    with sqlite3.connect(path) as spool:
        assert spool.execute("SELECT COUNT(*) FROM segments").fetchone()[0] > 0


def test_a_run_that_goes_on_costs_at_least_so_much(tmp_path, capsys):
    segments = as_files(simulated()[0], tmp_path)
    for path in segments[-3:]:
        path.unlink()
    assert main(["analyse", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert ", running" in printed
    assert "at least $" in printed


def test_it_needs_neither_django_nor_aws(folder):
    script = (
        "import sys; from advisor.__main__ import main; code = main(sys.argv[1:]); "
        "print([m for m in ('django', 'celery', 'boto3') if m in sys.modules], code)"
    )
    line = [sys.executable, "-c", script, "analyse", str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.endswith("[] 0\n"), done.stdout + done.stderr
