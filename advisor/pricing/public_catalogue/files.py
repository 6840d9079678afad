"""Finds the files of the public catalogue: in a local folder, or over HTTPS."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, TextIO
from urllib.parse import urlsplit

import requests

from advisor.pricing.public_catalogue.lines import CatalogueError

PUBLIC_URL = "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v8"
PROVIDERS = (
    "aws", "gcp", "azure", "oci", "lambda", "runpod", "nebius", "do", "cudo", "fluidstack",
    "paperspace", "hyperbolic", "vast",
)  # fmt: skip
"""Folders of the catalogue whose prices are in USD (Seeweb's and SCP's are not), by our name."""
MOST_BYTES = 64 * 1024**2
_TIMEOUT_SECONDS = 60
_CHUNK = 1 << 20


def is_url(place: str) -> bool:
    return urlsplit(place).scheme in ("http", "https")


def unknown_folders(place: str) -> list[str]:
    """Return the folders of a local copy that aren't read."""
    if is_url(place):
        return []
    return sorted(path.parent.name for path in Path(place).glob("*/vms.csv")
                  if path.parent.name not in PROVIDERS)  # fmt: skip


@contextmanager
def open_file(place: str, provider: str) -> Iterator[tuple[TextIO, datetime] | None]:
    """Yield the provider's file and its date: a folder's file has its own, a URL's has now. None if
    there is none.

    Raises:
        CatalogueError: the file is too large.
        OSError, requests.RequestException: it can't be read.
    """
    if is_url(place):
        with tempfile.TemporaryFile() as fetched:
            if not _fetch(f"{place.rstrip('/')}/{provider}/vms.csv", fetched):
                yield None
                return
            fetched.seek(0)
            with open(fetched.fileno(), newline="", encoding="utf-8", closefd=False) as file:
                yield file, datetime.now(UTC)
        return
    path = Path(place) / provider / "vms.csv"
    if not path.exists():
        yield None
        return
    if path.stat().st_size > MOST_BYTES:
        raise CatalogueError(f"{provider}/vms.csv: larger than {MOST_BYTES:,} bytes")
    with path.open(newline="", encoding="utf-8") as file:
        yield file, datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _fetch(url: str, to: BinaryIO) -> bool:
    """Fetch the file; return False if the provider isn't in this catalogue."""
    with requests.get(url, stream=True, timeout=_TIMEOUT_SECONDS) as answer:
        if answer.status_code == requests.codes.not_found:
            return False
        answer.raise_for_status()
        for chunk in answer.iter_content(_CHUNK):
            to.write(chunk)
            if to.tell() > MOST_BYTES:
                raise CatalogueError(f"{url}: larger than {MOST_BYTES:,} bytes")
    return True
