"""Inputs that are nearly right: valid segments, declarations and tables, changed a little."""

from __future__ import annotations

import copy
import gzip
import json
import math
import random
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from trimtab.wire import Event, Segment, StepSummary, join_bodies

from tests.service.uploads import FakeAgent

Path = tuple[str | int, ...]

TEXTS = ["", "NaN", "a.b", "host.x_pct", "train", "metric", "session_end", "nul \0", "half \ud800"]
TEXTS += [
    "n" * 300,
    "😀" * 60,
    "\u202e\x1b[2J",
    "'; DROP TABLE runs_run;--",
    "<script>",
    "-1",
    "1e999",
]
NUMBERS = [0, 1, -1, 0.5, -0.0, 2**31, 2**31 - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30]
NUMBERS += [1e308, 5e-324, math.nan, math.inf, -math.inf]
DEEP: list[Any] = json.loads("[" * 40 + "]" * 40)
PARTS: list[Any] = [None, True, False, [], {}, DEEP, [{}], {"": None}, [None] * 20, list(range(20))]
PARTS += [{"k": 1, "n": 20}, {"k": None, "n": 10**9}, {"d": [2**62] * 3}, {"d": []}, {"t": [0]}]
KINDS = ("changed",) * 8 + ("cut", "flipped", "packed badly", "noise")


def whole_segment(agent: FakeAgent, seq: int = 0) -> Segment:
    """Return a segment with everything in it that a segment can have."""
    events = [
        Event(1, "process_start", {"pid": 7}),
        Event(2, "metric", {"name": "loss", "value": 0.5, "step": 3, "rank": 0}),
        Event(3, "phase_begin", {"phase": "evaluate", "rank": 0}),
        Event(4, "gap", {"from_ms": 0, "to_ms": 5, "reason": "spool_full"}),
        Event(5, "session_end", {"state": "finished", "exit_code": 0, "final_seq": seq}),
    ]
    summary = StepSummary(0, "train", 0, 9, 900, 90, 110, 400, 64, {26: 9}, [110, 100])
    return agent.segment(seq, events=events, step_summaries=[summary])


def paths(part: Any, at: Path = ()) -> Iterator[Path]:
    """Yield every place in a document; of a long list the first three entries."""
    inner = list(part.items()) if isinstance(part, dict) else []
    inner = list(enumerate(part[:3])) if isinstance(part, list) else inner
    for key, value in inner:
        yield (*at, key)
        yield from paths(value, (*at, key))


class Damage:
    """Makes hostile bodies of a valid one."""

    def __init__(self, body: bytes) -> None:
        self._original: dict[str, Any] = json.loads(gzip.decompress(body))
        self._places = list(paths(self._original))

    def body(self, chance: random.Random) -> bytes:
        """Return mostly a document with a few changes; now and then broken JSON, broken gzip, or
        noise.
        """
        kind = chance.choice(KINDS)
        if kind == "noise":
            return chance.randbytes(chance.randrange(200))
        text = json.dumps(self._changed(chance)).encode()
        if kind == "cut":
            text = text[: chance.randrange(len(text) + 1)]
        elif kind == "flipped":
            text = flipped(chance, text)
        packed = gzip.compress(text, 1)
        return flipped(chance, packed) if kind == "packed badly" else packed

    def _changed(self, chance: random.Random) -> dict[str, Any]:
        changed = copy.deepcopy(self._original)
        for _ in range(chance.randint(1, 3)):
            mutate(chance, changed, chance.choice(self._places))
        return changed


def changed(chance: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with a few changes."""
    copied, places = copy.deepcopy(document), list(paths(document))
    for _ in range(chance.randint(1, 3)):
        mutate(chance, copied, chance.choice(places))
    return copied


def flipped(chance: random.Random, body: bytes) -> bytes:
    """Change a body: some bytes more, fewer or others, at one place."""
    at = chance.randrange(len(body) + 1)
    return body[:at] + chance.randbytes(chance.randrange(4)) + body[at + chance.randrange(3) :]


def mutate(chance: random.Random, changed: Any, place: Path) -> None:
    """Replace, remove, rename or repeat what is there, unless an earlier change took it away."""
    holder = changed
    try:
        for key in place[:-1]:
            holder = holder[key]
        value = holder[place[-1]]
    except (KeyError, IndexError, TypeError):
        return
    if not isinstance(holder, dict | list):
        return
    what = chance.choice(["replace", "replace", "replace", "remove", "more"])
    if what == "remove":
        del holder[place[-1]]
    elif what == "replace":
        holder[place[-1]] = _value(chance)
    elif isinstance(holder, list):
        holder.extend([copy.deepcopy(value) for _ in range(chance.choice([1, 7, 300]))])
    else:
        holder[chance.choice(TEXTS)] = copy.deepcopy(value)


def _value(chance: random.Random) -> Any:
    kind = chance.randrange(5)
    if kind < 2:
        return chance.choice([*TEXTS, *NUMBERS])
    if kind == 2:
        return copy.deepcopy(chance.choice(PARTS))
    if kind == 3:
        return chance.randint(-(2**65), 2**65)
    return chance.uniform(-1, 1) * 10.0 ** chance.randint(-300, 300)


def several_like(body: bytes) -> st.SearchStrategy[bytes]:
    """Draw requests with several segments, some of them or the request itself changed."""
    several = st.lists(st.just(body) | bodies_like(body), min_size=1, max_size=4).map(join_bodies)
    seeds = st.integers(0, 2**48)
    return several | st.builds(lambda s, seed: flipped(random.Random(seed), s), several, seeds)


def lines_like(chance: random.Random, table: str) -> str:
    """Return a CSV text with some fields, lines or characters changed."""
    lines = table.splitlines()
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines))
        fields = lines[at].split(",")
        field = chance.randrange(len(fields))
        what = chance.choice(["field", "field", "field", "remove", "more", "line", "quote"])
        if what == "field":
            fields[field] = str(chance.choice([*TEXTS, *NUMBERS]))
        elif what == "remove":
            del fields[field]
        elif what == "more":
            fields *= chance.choice([2, 300])
        elif what == "line":
            lines += [lines[at]] * chance.choice([1, 50])
        else:
            fields[field] = f'"{fields[field]}'
        lines[at] = ",".join(fields)
    return chance.choice(["\n", "\r\n", "\n\n"]).join(lines)


def bodies_like(body: bytes) -> st.SearchStrategy[bytes]:
    damage = Damage(body)
    return st.integers(0, 2**48).map(lambda seed: damage.body(random.Random(seed)))
