"""A folder, and a bucket of moto's S3 server."""

from __future__ import annotations

import pytest

from advisor.store.folder import FolderStore
from advisor.store.opening import open_store
from tests.s3 import bucket_url, s3_endpoint

__all__ = ["bucket_url", "s3_endpoint"]


@pytest.fixture(params=["folder", "s3"])
def either_store(request, tmp_path):
    """Return both kinds of store, opened by their address."""
    if request.param == "folder":
        return open_store(str(tmp_path / "objects"))
    return open_store(request.getfixturevalue("bucket_url"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return FolderStore(tmp_path_factory.mktemp("objects"))
