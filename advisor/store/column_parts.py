"""The bytes of an hour's part of a node's columns: small, since a running run has one an hour."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from advisor.store.chunks import ChunkError, damage_refused
from advisor.store.lines import CARRIED, LinesPart
from advisor.store.parts import pack_parts, unpack_parts
from advisor.store.rows import Rows, no_histograms

_MAGIC = b"trimtab columns 1\n"
_CODEC = pa.Codec("zstd", compression_level=3)
_MOST_BYTES = 1 << 30
_PLACES = ("starts", "lengths", "done", "held")
_FLOATS = ("mean", "last")


@dataclass(frozen=True)
class HourPart:
    """The part of a node's columns that an hour added.

    Attributes:
        series: how many series the hour had.
        newest_ms: the last moment of any of them, Unix milliseconds.
        lines: the part of each grid, by its name.
    """

    series: int
    newest_ms: int
    lines: dict[str, LinesPart]


def encode(part: HourPart) -> bytes:
    """Return the bytes of a part; `decode` is the way back."""
    parts: dict[str, bytes] = {}
    sizes: dict[str, int] = {}
    for grid, lines in part.lines.items():
        for name, raw in _sections(lines).items():
            sizes[f"{grid}.{name}"] = len(raw)
            parts[f"{grid}.{name}"] = _CODEC.compress(raw, asbytes=True)
    header = {
        "series": part.series,
        "newest_ms": part.newest_ms,
        "sizes": sizes,
        "dtypes": {grid: lines.values.dtype.str for grid, lines in part.lines.items()},
        "cells": {grid: lines.cells for grid, lines in part.lines.items()},
    }
    return pack_parts(_MAGIC, header, parts)


def decode(body: bytes) -> HourPart:
    """Return the part in the bytes of `encode`.

    Raises:
        ChunkError: the bytes are not a part, or damaged.
    """
    header, parts = unpack_parts(_MAGIC, body)
    with damage_refused():
        if sum(header["sizes"].values()) > _MOST_BYTES:
            raise ChunkError("larger than any part")
        raw = {
            name: bytes(_CODEC.decompress(part, header["sizes"][name], asbytes=True))
            for name, part in parts.items()
        }
        lines = {
            grid: _part(raw, grid, dtype, header["cells"][grid])
            for grid, dtype in header["dtypes"].items()
        }
        return HourPart(header["series"], header["newest_ms"], lines)


def _sections(part: LinesPart) -> Mapping[str, bytes]:
    places = np.stack([getattr(part, name) for name in _PLACES])
    rows = [getattr(part.rows, name) for name in CARRIED]
    return {
        "names": json.dumps(part.names, separators=(",", ":")).encode(),
        "places": _split(places),
        "rows": b"".join(_split(values) for values in rows),
        "values": _split(_changes(part.values)),
    }


def _part(raw: Mapping[str, bytes], grid: str, dtype: str, cells: str) -> LinesPart:
    places = _joined(raw[f"{grid}.places"], "<i8").reshape(len(_PLACES), -1)
    return LinesPart(
        json.loads(raw[f"{grid}.names"]),
        places[0],
        places[1],
        _unchanged(_joined(raw[f"{grid}.values"], dtype)),
        places[2],
        places[3],
        _rows(raw[f"{grid}.rows"]),
        cells,
    )


def _rows(raw: bytes) -> Rows:
    size = len(raw) // len(CARRIED)
    fields = {
        name: _joined(raw[place * size : (place + 1) * size], "<f8" if name in _FLOATS else "<i8")
        for place, name in enumerate(CARRIED)
    }
    mean = fields["mean"]
    return Rows(**fields, low=mean, high=mean, histogram=no_histograms(len(mean)))


def _changes(values: np.ndarray) -> np.ndarray:
    """Return the bits by which each value differs from the one before: many are 0."""
    bits = values.view(f"u{values.dtype.itemsize}")
    return np.asarray(bits ^ np.concatenate([np.zeros(1, bits.dtype), bits])[:-1])


def _unchanged(changes: np.ndarray) -> np.ndarray:
    """Undo `_changes`."""
    bits = changes.view(f"u{changes.dtype.itemsize}")
    return np.asarray(np.bitwise_xor.accumulate(bits).view(changes.dtype))


def _split(values: np.ndarray) -> bytes:
    """Return the first bytes of all numbers, then the second ones: like ones stand together."""
    single = np.ascontiguousarray(values).view(np.uint8).reshape(-1, values.dtype.itemsize)
    return np.ascontiguousarray(single.T).tobytes()


def _joined(raw: bytes, dtype: str) -> np.ndarray:
    width = np.dtype(dtype).itemsize
    single = np.frombuffer(raw, np.uint8).reshape(width, -1)
    return np.ascontiguousarray(single.T).view(dtype).reshape(-1)
