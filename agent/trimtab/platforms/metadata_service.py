"""Queries a cloud's metadata service, which has the same local address on every machine."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from urllib.parse import urlsplit

_ADDRESS = "http://169.254.169.254"
_SECONDS = 1.0
_MOST_BYTES = 64 * 1024


class MetadataError(Exception):
    """Raised when the instance couldn't be detected; the message says why."""


class MetadataService:
    """Metadata service at 169.254.169.254, or at TRIMTAB_METADATA_URL; never through a proxy."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        if environment.get("TRIMTAB_METADATA", "").lower() in ("0", "off", "false", "no"):
            raise MetadataError("switched off by TRIMTAB_METADATA")
        address = urlsplit(environment.get("TRIMTAB_METADATA_URL") or _ADDRESS)
        self._host, self._port = address.hostname or "", address.port or 80

    def text(self, path: str, headers: Mapping[str, str], method: str = "GET") -> str:
        """Return an answer. Raises MetadataError unless it is 200 and comes within a second."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_SECONDS)
        try:
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            body = answer.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise MetadataError(f"{path}: {error or type(error).__name__}") from None
        finally:
            connection.close()
        if answer.status != 200:
            raise MetadataError(f"{path}: answered {answer.status}")
        return body.decode(errors="replace").strip()
