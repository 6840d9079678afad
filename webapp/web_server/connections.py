"""The open connections: how many there may be, and how long each may take."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from webapp.web_server.stream import Stream

HEAD_SECONDS = 20
"""The longest time from the opening of a connection to the end of the head of its first request."""
IDLE_SECONDS = 75
"""The longest time from an answer to the end of the next head. Proxies keep connections for 60 s:
they close first, so that no request meets a connection that is just being closed."""
WINDOW_SECONDS, SLOWEST_BYTES_PER_SECOND = 20, 2_000
"""The slowest progress of a body or an answer, in each window. The rate is far below what people
have, so that nobody is cut off because the machine is busy."""
MOST_HELD_BYTES, MOST_HELD_BYTES_PER_ADDRESS = 4 << 30, 2 << 30
"""The most bytes of bodies that are being received or processed; small bodies are in memory, the
others on disk."""


class Connection:
    """One open connection. It waits for a request, moves bytes, or its request is worked on."""

    def __init__(self, stream: Stream, peer: str) -> None:
        self.stream, self.peer = stream, peer
        self.end: Callable[[], None] = stream.close
        """The action that ends the connection when it is overdue."""
        self.address: str | None = None
        """The address that the limits count the connection for, while it is known."""
        self.held_bytes = 0
        self.requests = 0
        self._moved_bytes = 0
        self.wait()

    def wait(self) -> None:
        """Note that the connection waits for a request."""
        self.is_waiting, self._is_moving = True, False
        self.since = time.monotonic()

    def move(self) -> None:
        """Note that from now on a body or an answer has to progress."""
        self.is_waiting, self._is_moving = False, True
        self.since, self._moved_bytes = time.monotonic(), 0

    def count_moved(self, count_bytes: int) -> None:
        self._moved_bytes += count_bytes

    def work(self) -> None:
        """Note that the request is being processed: nothing is expected of the client until the
        answer is there.
        """
        self.is_waiting = self._is_moving = False

    def is_overdue(self, now: float) -> bool:
        if self.is_waiting:
            return now - self.since > (IDLE_SECONDS if self.requests else HEAD_SECONDS)
        if not self._is_moving or now - self.since < WINDOW_SECONDS:
            return False
        is_slow = self._moved_bytes < WINDOW_SECONDS * SLOWEST_BYTES_PER_SECOND
        self.since, self._moved_bytes = now, 0
        return is_slow


class Connections:
    """All open connections, bounded in total and by the client's address."""

    def __init__(self, most: int, most_per_address: int, is_behind_proxies: bool = False) -> None:
        self._most, self._most_per_address = most, most_per_address
        self.is_behind_proxies = is_behind_proxies
        """True if only a request says whose it is: the connection is the proxy's."""
        self._all: set[Connection] = set()
        self._of: defaultdict[str, set[Connection]] = defaultdict(set)
        self.held_bytes = 0
        self._held_bytes_of: Counter[str] = Counter()
        self.is_ending = False
        """True once each connection ends with the answer that is under way."""

    def __len__(self) -> int:
        return len(self._all)

    def count_for(self, address: str) -> int:
        """Return how many connections are counted for an address."""
        return len(self._of[address]) if address in self._of else 0

    def add(self, connection: Connection) -> bool:
        """Add the connection. If there are too many, the one that has waited longest is closed.

        False if all of them are busy.
        """
        if len(self._all) >= self._most and not self._drop_longest_waiting(self._all):
            return False
        self._all.add(connection)
        return True

    def claim(self, connection: Connection, address: str) -> bool:
        """Count the connection for an address, within the address's limit as in `add`."""
        self.unclaim(connection)
        own = self._of[address]
        if len(own) >= self._most_per_address and not self._drop_longest_waiting(own):
            return False
        # Anew: the last one of an address takes the address's set along.
        self._of[address].add(connection)
        connection.address = address
        return True

    def unclaim(self, connection: Connection) -> None:
        if connection.address is None:
            return
        own = self._of[connection.address]
        own.discard(connection)
        if not own:
            del self._of[connection.address]
        connection.address = None

    def remove(self, connection: Connection) -> None:
        self.release(connection)
        self.unclaim(connection)
        self._all.discard(connection)

    def hold(self, connection: Connection, count_bytes: int) -> bool:
        """Count bytes of a body; return False if there is no room for them."""
        address = connection.address
        if self.held_bytes + count_bytes > MOST_HELD_BYTES:
            return False
        if address is not None:
            if self._held_bytes_of[address] + count_bytes > MOST_HELD_BYTES_PER_ADDRESS:
                return False
            self._held_bytes_of[address] += count_bytes
        self.held_bytes += count_bytes
        connection.held_bytes += count_bytes
        return True

    def release(self, connection: Connection) -> None:
        """Stop counting a request's body, which is no longer needed."""
        self.held_bytes -= connection.held_bytes
        if connection.address is not None:
            self._held_bytes_of[connection.address] -= connection.held_bytes
            if not self._held_bytes_of[connection.address]:
                del self._held_bytes_of[connection.address]
        connection.held_bytes = 0

    def overdue(self) -> list[Connection]:
        now = time.monotonic()
        return [each for each in self._all if each.is_overdue(now)]

    def forgive(self) -> None:
        """Restart all deadlines, because the loop was stopped for a while."""
        now = time.monotonic()
        for each in self._all:
            each.since = now

    def waiting(self) -> list[Connection]:
        return [each for each in self._all if each.is_waiting]

    def _drop_longest_waiting(self, some: Iterable[Connection]) -> bool:
        waiting = [each for each in some if each.is_waiting]
        if not waiting:
            return False
        longest = min(waiting, key=lambda each: each.since)
        self.remove(longest)
        longest.stream.close()
        return True
