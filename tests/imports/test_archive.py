"""Tests of what unpacking writes, whatever the archive is."""

from __future__ import annotations

import io
import shutil
import tarfile
import time
from collections import Counter
from pathlib import Path

import pytest
from trimtab.packing import Parts

from advisor.importers.archive import unpack
from advisor.importers.bounds import Bounds
from advisor.importers.recording import NotImportableError
from advisor.importers.tally import Tally
from tests.cpu_time import is_within
from tests.imports import hostile_archives as hostile
from tests.imports.hostile_archives import header, member, packed

BOUNDS = Bounds(unpacked_bytes=1024 * 1024, files=200, header_blocks=1_500)


def unpacked(body: bytes, folder: Path, bounds: Bounds = BOUNDS) -> tuple[Tally, str]:
    """Return what was counted, and why it was refused."""
    tally = Tally()
    try:
        unpack(io.BytesIO(body), folder, tally, bounds=bounds)
    except NotImportableError as error:
        return tally, str(error)
    return tally, ""


def files_of(folder: Path) -> dict[str, int]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in found}


def contents_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files_of(folder)}


def reasons(tally: Tally) -> dict[str, int]:
    return {each.why: each.count for each in tally.skipped.values()}


def test_a_sparse_file_of_exbibytes_writes_nothing(tmp_path):
    body = packed(hostile.old_sparse(1536 * hostile.MIB), member(b"good", b"x"))
    assert len(body) < 250
    tally, problem = unpacked(body, tmp_path / "into")
    assert not problem
    assert files_of(tmp_path / "into") == {"good": 1}
    assert reasons(tally) == {"sparse files aren't unpacked": 1}


def test_folders_on_the_way_to_a_file_count(tmp_path):
    deep = (b"/".join([b"%d" % n] * 39) + b"/f" for n in range(400))
    _, problem = unpacked(packed(*map(member, deep)), tmp_path / "into")
    assert "more than 200 files and folders" in problem
    assert hostile.on_disk((tmp_path / "into").rglob("*"))[1] <= 200


def test_300_hostile_archives_stay_within_their_folder_and_their_bounds(tmp_path):
    (tmp_path / "outside").write_text("theirs")
    ended: Counter[str] = Counter()
    for name, body in hostile.every():
        into, began = tmp_path / "into", time.process_time()
        tally, problem = unpacked(body, into)
        assert is_within(time.process_time() - began, 2), name
        found = list(into.rglob("*"))
        written, inodes = hostile.on_disk(found)
        assert written <= BOUNDS.unpacked_bytes + hostile.MIB, name
        assert inodes <= BOUNDS.files, name
        assert all(each.is_dir() or each.lstat().st_nlink == 1 for each in found), name
        assert not any(each.is_symlink() for each in found), name
        ended["refused" if problem else "skipped" if tally.skipped else "taken"] += 1
        shutil.rmtree(into)
        assert [each.name for each in tmp_path.iterdir()] == ["outside"], name
        assert (tmp_path / "outside").read_text() == "theirs", name
    assert ended.total() >= 300
    assert min(ended.values()) >= 20, ended


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_an_honest_archive_is_unpacked_as_it_was_packed(form, tmp_path):
    folder, body = tmp_path / "folder", io.BytesIO()
    for number in range(30):
        path = folder / f"{number:0100}" / f"run-{number}" / "ünì.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes([number]) * (number * 37 % 1500))
    with tarfile.open(fileobj=body, mode="w:gz", format=form) as archive:
        archive.add(folder, arcname=".")
    tally, problem = unpacked(body.getvalue(), tmp_path / "into")
    assert (problem, tally.skipped) == ("", {})
    assert contents_of(tmp_path / "into") == contents_of(folder)


def test_what_the_agent_packs_is_unpacked(tmp_path):
    folder = tmp_path / "folder"
    (folder / ("n" * 200)).mkdir(parents=True)
    (folder / ("n" * 200) / "a.json").write_bytes(b"x" * 300_000)
    (folder / "empty").touch()
    (tmp_path / "parts").mkdir()
    parts = [part.path.read_bytes() for part in Parts(folder, tmp_path / "parts", 100)]
    assert unpacked(b"".join(parts), tmp_path / "into")[1] == ""
    assert contents_of(tmp_path / "into") == contents_of(folder)


def test_the_first_of_a_doubled_name_stays(tmp_path):
    tally, _ = unpacked(packed(member(b"a/b", b"1"), member(b"./a//b", b"22")), tmp_path / "into")
    assert files_of(tmp_path / "into") == {"a/b": 1}
    assert reasons(tally) == {"a path that another file has": 1}


def test_a_name_that_is_no_text_costs_only_its_file(tmp_path):
    tally, problem = unpacked(packed(member(b"\xff", b"1"), member(b"b", b"2")), tmp_path / "into")
    assert files_of(tmp_path / "into") == {"b": 1}
    assert not problem
    assert sum(reasons(tally).values()) == 1


@pytest.mark.parametrize("kind", [b"5", b"1", b"g", b"L"])
def test_headers_that_write_nothing_end_by_their_count(kind, tmp_path):
    _, problem = unpacked(packed(header(b"a/", 0, kind) * 1_501), tmp_path / "into")
    assert "1,500 blocks of headers" in problem


def test_the_space_that_others_need_stays_free(tmp_path):
    bounds = Bounds(free_bytes=shutil.disk_usage(tmp_path).free)
    _, problem = unpacked(packed(member(b"a", b"x")), tmp_path / "into", bounds)
    assert "disk of the service is nearly full" in problem
    assert not files_of(tmp_path / "into")
