"""The decoders that take what others wrote, each with the valid inputs to start from."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from uuid import UUID

import pyarrow as pa
from django.test import Client
from trimtab.wire import (
    WireError,
    decode_declaration,
    decode_segment,
    encode_segment,
    join_bodies,
    split_bodies,
)

from advisor.pricing import csv_rows
from advisor.store import chunks, segments, ticks
from advisor.store.index import SegmentRef, from_ns
from bench import fuzz_imports
from bench.fuzz import Decoder
from tests.service import hostile
from tests.service.uploads import FakeAgent
from webapp.prices.forms import MOST_FILE_BYTES, DiscountForm

RATES = (
    ",".join(csv_rows.COLUMNS)
    + """
aws,ec2,us-east-1,,p4d.24xlarge,on_demand,linux,32.7726,2024-01-01,2025-01-01,contract 7,no
aws,sagemaker_training,eu-west-1,,ml.p3.2xlarge,spot,linux,1.2,2024-01-01,,"a, b",yes
on_premises,gpu_hour,,,A100,on_demand,linux,1.10,2023-06-01,,our own,
"""
)
DISCOUNT = {
    "percent": "12.5",
    "family": "p4d",
    "service": "ec2",
    "purchase_option": "on_demand",
    "valid_from": "2024-01-01",
    "valid_to": "2025-01-01",
}


def agent() -> FakeAgent:
    return FakeAgent(Client(), "", run_id=UUID(int=1), session_id=UUID(int=2))


def all_decoders() -> Iterator[Decoder]:
    segment = encode_segment(hostile.whole_segment(agent()))
    declaration = agent().declaration_body(owner="ada", tags={"team": "a"}, parameters={"lr": 0.1})
    yield Decoder("segment", hostile.Damage(segment).body, decode_segment, (WireError,))
    yield Decoder("several segments", _damaged(join_bodies([segment] * 3)), _each, (WireError,))
    yield Decoder("declaration", hostile.Damage(declaration).body, decode_declaration, (WireError,))
    yield Decoder("stored segment", hostile.Damage(segment).body, _stored_segment, (WireError,))
    yield Decoder("rates CSV", _damaged_rates, _rates, ())
    yield Decoder("discount form", _discount, _checked_discount, ())
    yield Decoder("stored chunk", _damaged(_chunk()), _stored_chunk, _BROKEN)
    yield from fuzz_imports.import_decoders()


_BROKEN = (pa.ArrowException, chunks.ChunkError, OSError)


def _damaged_rates(chance: random.Random) -> str:
    """Return lines as long as the form lets through."""
    return hostile.lines_like(chance, RATES)[:MOST_FILE_BYTES]


def _rates(text: object) -> None:
    assert isinstance(text, str)
    rows, refused = csv_rows.read(io.StringIO(text))
    for each in refused:
        assert str(each)
    "".join(csv_rows.lines(rows))


def _discount(chance: random.Random) -> dict[str, str]:
    given = dict(DISCOUNT)
    for _ in range(chance.randint(1, 3)):
        value = chance.choice([*hostile.TEXTS, *hostile.NUMBERS])
        given[chance.choice(list(DISCOUNT))] = str(value)
    return given


def _checked_discount(given: object) -> None:
    form = DiscountForm(given)
    if form.is_valid():
        form.discount()


def _each(body: object) -> None:
    assert isinstance(body, bytes)
    for one in split_bodies(body):
        decode_segment(one)


def _ref() -> SegmentRef:
    made = agent()
    return SegmentRef("key", str(made.session_id), 0, from_ns(made.started_at_ns), 0, 10_000)


def _stored_segment(body: object) -> None:
    assert isinstance(body, bytes)
    segments.ticks_of([segments.read_segment(_ref(), body)])


def _chunk() -> bytes:
    hot = segments.read_segment(_ref(), encode_segment(agent().segment(0)))
    members = chunks.Members()
    members.add_all([hot])
    return chunks.encode_ticks(ticks.merge_ticks(segments.ticks_of([hot])), members)


def _damaged(body: bytes) -> Callable[[random.Random], bytes]:
    """Return a function that makes a file of a disk that fails: cut, or with other bytes in some
    places.
    """

    def damaged(chance: random.Random) -> bytes:
        changed = body[: chance.randrange(1, len(body))] if chance.random() < 0.2 else body
        for _ in range(chance.randint(1, 3)):
            changed = hostile.flipped(chance, changed)
        return changed

    return damaged


def _stored_chunk(body: object) -> None:
    assert isinstance(body, bytes)
    chunks.decode_ticks(body)
    chunks.series_of(body)
