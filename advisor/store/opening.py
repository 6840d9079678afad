"""Opens the store of a URL."""

from __future__ import annotations

from functools import cache
from urllib.parse import unquote, urlsplit

from advisor.store.folder import FolderStore
from advisor.store.objects import ObjectStore


@cache
def open_store(url: str) -> ObjectStore:
    """Return the store at `s3://bucket/prefix`, `file:///path`, or a plain path. One store per URL.

    Raises:
        ValueError: another scheme.
    """
    parts = urlsplit(url)
    if parts.scheme == "s3":
        from advisor.store.s3 import S3Store

        return S3Store(parts.netloc, parts.path.strip("/"))
    if parts.scheme not in ("", "file"):
        raise ValueError(f"objects can't be kept in {parts.scheme}://; use s3:// or a folder")
    return FolderStore(unquote(parts.path))
