"""Objects in memory: for a run that is read once and stored nowhere."""

from __future__ import annotations

from advisor.store.objects import ObjectMissingError


class MemoryStore:
    """The part of a store that writing and reading one run needs."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def put(self, key: str, body: bytes) -> None:
        self._bodies[key] = body

    def get(self, key: str) -> bytes:
        try:
            return self._bodies[key]
        except KeyError:
            raise ObjectMissingError(key) from None
