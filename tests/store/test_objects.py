"""The folder and S3 keep the same promises."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from advisor.store.folder import FolderStore
from advisor.store.objects import ObjectMissingError, ObjectStore, StoreAwayError
from advisor.store.opening import open_store
from advisor.store.s3 import S3Store
from advisor.store.series import read_series
from tests.store.runs import CPU, START, compacted, frame_of, segment, store_segments

BODY_BYTES = 3_000_000
PUTS_FOR_EVER = f"""
import sys
from advisor.store.folder import FolderStore
store = FolderStore(sys.argv[1])
for number in range(10**9):
    store.put("a/object", bytes([number % 256]) * {BODY_BYTES})
"""


def keys(store: ObjectStore, prefix: str) -> list[str]:
    return [listed.key for listed in store.list(prefix)]


def test_it_gives_back_what_was_put(either_store):
    either_store.put("runs/1/a.segment", b"\x00body")
    assert either_store.get("runs/1/a.segment") == b"\x00body"
    assert either_store.exists("runs/1/a.segment")


def test_it_replaces_and_deletes_and_deletes_again(either_store):
    either_store.put("a", b"1")
    either_store.put("a", b"2")
    assert either_store.get("a") == b"2"
    either_store.delete("a")
    either_store.delete("a")
    assert not either_store.exists("a")


def test_it_puts_many_at_once(either_store):
    bodies = [(f"runs/{number}/a", b"%d" % number) for number in range(25)]
    assert either_store.put_all(bodies) == [None] * 25
    assert [either_store.get(key) for key, _ in bodies] == [body for _, body in bodies]
    assert either_store.put_all([]) == []


def test_it_says_which_objects_are_new(either_store):
    """S3 isn't asked: that would take as long as writing."""
    either_store.put("a", b"1")
    assert either_store.is_new("b")
    assert either_store.is_new("a") == isinstance(either_store, S3Store)


def test_a_store_that_cant_be_used_is_tried_once_and_keeps_what_it_took(tmp_path, monkeypatch):
    store, tried, put = FolderStore(tmp_path / "objects"), [], FolderStore.put

    def full_after_two(self: FolderStore, key: str, body: bytes) -> None:
        tried.append(key)
        if len(tried) > 2:
            raise OSError(28, "No space left on device")
        put(self, key, body)

    monkeypatch.setattr(FolderStore, "put", full_after_two)
    first, second, *rest = store.put_all([(name, b"x") for name in "abcde"])
    assert (first, second, len(rest)) == (None, None, 3)
    assert all(isinstance(each, OSError) for each in rest)
    assert (tried, keys(store, "")) == (["a", "b", "c"], ["a", "b"])


def test_a_bucket_that_is_away_is_said_for_each(s3_endpoint):
    away = S3Store("no-such-bucket")
    outcomes = away.put_all([(name, b"x") for name in "abcdefghijklmnop"])
    assert len(outcomes) == 16
    assert all(isinstance(each, StoreAwayError) for each in outcomes)


def test_it_says_which_object_is_missing(either_store):
    with pytest.raises(ObjectMissingError, match="runs/none"):
        either_store.get("runs/none")


def test_it_lists_by_prefix_in_order(either_store):
    for key in ("runs/2/b", "runs/1/z", "runs/1/a", "other"):
        either_store.put(key, b"x")
    assert keys(either_store, "runs/1/") == ["runs/1/a", "runs/1/z"]
    assert keys(either_store, "runs/") == ["runs/1/a", "runs/1/z", "runs/2/b"]
    assert keys(either_store, "run") == ["runs/1/a", "runs/1/z", "runs/2/b"]
    assert keys(either_store, "nothing/here/") == []


def test_a_listing_tells_size_and_age(either_store):
    before = datetime.now(UTC) - timedelta(seconds=2)
    either_store.put("runs/1/a", b"12345")
    (objects,) = either_store.list("")
    assert objects.size_bytes == 5
    assert before <= objects.changed_at <= datetime.now(UTC) + timedelta(seconds=2)


def test_tidying_takes_old_halves_and_empty_folders_and_no_object(tmp_path):
    store = FolderStore(tmp_path)
    store.put("runs/kept/a", b"1")
    store.put("runs/gone/a", b"1")
    store.delete("runs/gone/a")
    (tmp_path / "runs" / "kept" / ".tmp-half").write_bytes(b"half")
    store.tidy(before=datetime.now(UTC) - timedelta(hours=1))
    assert (tmp_path / "runs" / "kept" / ".tmp-half").exists()
    store.tidy(before=datetime.now(UTC) + timedelta(hours=1))
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert left == ["runs", "runs/kept", "runs/kept/a"]


@pytest.mark.parametrize(
    "key", ["../a", "/etc/passwd", "a//b", "a/../b", "", "a b", "a\n", "x" * 600]
)
def test_it_refuses_keys_that_could_lead_elsewhere(either_store, key):
    with pytest.raises(ValueError, match="not an object key"):
        either_store.put(key, b"")
    with pytest.raises(ValueError, match="not an object key"):
        either_store.get(key)


def test_it_keeps_a_run_through_compaction(either_store):
    history = store_segments(either_store, [segment(i, [5.0, 7.5] * 10) for i in range(4)])
    before = frame_of(either_store, history, 40)
    after = compacted(either_store, history)
    assert frame_of(either_store, after, 40).samples.equals(before.samples)
    (view,) = read_series(either_store, [after], [CPU], START, START + timedelta(seconds=40), 4)
    assert view.mean.tolist() == [6.25] * 4


def test_a_folder_never_lists_a_half_written_object(tmp_path):
    store = FolderStore(tmp_path)
    store.put("a/b", b"1")
    (tmp_path / "a" / ".tmp-half").write_bytes(b"half")
    assert keys(store, "") == ["a/b"]


def test_a_writer_that_is_killed_leaves_a_whole_object(tmp_path):
    store = FolderStore(tmp_path)
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", PUTS_FOR_EVER, str(tmp_path)])
        deadline = time.monotonic() + 30
        while not store.exists("a/object") and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        writer.kill()
        writer.wait()
        body = store.get("a/object")
        assert body == body[:1] * BODY_BYTES
        assert keys(store, "") == ["a/object"]


def test_a_put_that_fails_leaves_nothing_behind(tmp_path):
    store = FolderStore(tmp_path)
    (tmp_path / "taken" / "below").mkdir(parents=True)
    with pytest.raises(OSError, match="taken"):
        store.put("taken", b"an object where a folder stands")
    assert not list(tmp_path.glob(".tmp-*"))


def test_it_refuses_an_address_that_it_does_not_know():
    with pytest.raises(ValueError, match="ftp"):
        open_store("ftp://somewhere/else")
