"""The folder and S3 keep the same promises."""

from __future__ import annotations

import os

import pytest
from moto.server import ThreadedMotoServer

from advisor.store.objects import FolderStore, ObjectMissingError, open_store
from advisor.store.s3 import S3Store


@pytest.fixture(scope="module")
def s3_endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["folder", "s3"])
def store(request, tmp_path, monkeypatch):
    if request.param == "folder":
        return open_store(str(tmp_path / "objects"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("s3_endpoint"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    bucket = f"trimtab-{os.urandom(4).hex()}"
    made = open_store(f"s3://{bucket}/some/prefix")
    assert isinstance(made, S3Store)
    made._client.create_bucket(Bucket=bucket)
    return made


def test_it_gives_back_what_was_put(store):
    store.put("runs/1/a.segment", b"\x00body")
    assert store.get("runs/1/a.segment") == b"\x00body"
    assert store.exists("runs/1/a.segment")


def test_it_replaces_and_deletes_and_deletes_again(store):
    store.put("a", b"1")
    store.put("a", b"2")
    assert store.get("a") == b"2"
    store.delete("a")
    store.delete("a")
    assert not store.exists("a")


def test_it_says_which_object_is_missing(store):
    with pytest.raises(ObjectMissingError, match="runs/none"):
        store.get("runs/none")


def test_it_lists_by_prefix_in_order(store):
    for key in ("runs/2/b", "runs/1/z", "runs/1/a", "other"):
        store.put(key, b"x")
    assert list(store.list("runs/1/")) == ["runs/1/a", "runs/1/z"]
    assert list(store.list("runs/")) == ["runs/1/a", "runs/1/z", "runs/2/b"]


@pytest.mark.parametrize(
    "key", ["../a", "/etc/passwd", "a//b", "a/../b", "", "a b", "a\n", "x" * 600]
)
def test_it_refuses_keys_that_could_lead_elsewhere(store, key):
    with pytest.raises(ValueError, match="not an object key"):
        store.put(key, b"")


def test_a_folder_never_lists_a_half_written_object(tmp_path):
    store = FolderStore(tmp_path)
    store.put("a/b", b"1")
    (tmp_path / "a" / ".tmp-half").write_bytes(b"half")
    assert list(store.list("")) == ["a/b"]


def test_it_refuses_an_address_that_it_does_not_know():
    with pytest.raises(ValueError, match="ftp"):
        open_store("ftp://somewhere/else")
