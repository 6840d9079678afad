"""A folder, and a bucket of moto's S3 server."""

from __future__ import annotations

import os

import pytest
from moto.server import ThreadedMotoServer

from advisor.store.folder import FolderStore
from advisor.store.opening import open_store
from advisor.store.s3 import S3Store


@pytest.fixture(scope="session")
def s3_endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["folder", "s3"])
def either_store(request, tmp_path, monkeypatch):
    """Both kinds of store, opened by their address."""
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


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return FolderStore(tmp_path_factory.mktemp("objects"))
