"""Messages of Protocol Buffers, written field by field, and the files that hold them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

START = 1_795_507_200
"""2026-11-24 08:00 UTC."""
_BLOCK = 32 * 1024


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    body = b""
    while number > 0x7F:
        body += bytes([number & 0x7F | 0x80])
        number >>= 7
    return body + bytes([number])


def field(number: int, value: int | float | str | bytes) -> bytes:
    """Return an integer as varint, a float as double, a text or message with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    body = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(body)) + body


def _crc32c(body: bytes) -> int:
    """Compute the sum bit by bit, as RFC 3720 describes it."""
    crc = 2**32 - 1
    for byte in body:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 2**32 - 1


def _masked(body: bytes) -> bytes:
    crc = _crc32c(body)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


def tf_record(body: bytes) -> bytes:
    length = struct.pack("<Q", len(body))
    return length + _masked(length) + body + _masked(body)


def scalar(tag: str, value: float, step: int, at: float, is_tensor: bool = False) -> bytes:
    """Return an event with a scalar, `at` seconds after the start."""
    simple = varint(2 << 3 | 5) + struct.pack("<f", value)
    tensor = field(8, field(1, 1) + field(2, b"") + field(4, struct.pack("<f", value)))
    marked = tensor + field(9, field(1, field(1, "scalars")))
    summary = field(1, field(1, tag) + (marked if is_tensor else simple))
    return tf_record(field(1, float(START + at)) + field(2, step) + field(5, summary))


def session(parameters: dict[str, Any], status: int = 0) -> bytes:
    """Return an event of the hyperparameters' plugin: the start of a session, or with a status its
    end.
    """
    entries = b"".join(
        field(1, field(1, name) + field(2, _plain(value))) for name, value in parameters.items()
    )
    content = field(4, field(1, status)) if status else field(3, entries)
    plugin = field(9, field(1, field(1, "hparams") + field(2, content)))
    return tf_record(field(1, START + 0.0) + field(5, field(1, field(1, "_hparams_/x") + plugin)))


def event_file(folder: Path, *events: bytes, host: str = "node-1.7.0.v2") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{START}.{host}"
    first = tf_record(field(1, START + 0.0) + field(3, "brain.Event:2"))
    path.write_bytes(first + b"".join(events))
    return path


def wandb_item(key: str, value: Any) -> bytes:
    """Return an item of a history or of statistics."""
    return field(1, key) + field(16, json.dumps(value))


def wandb_history(at: float, step: int, **values: Any) -> bytes:
    values |= {"_timestamp": START + at, "_step": step}
    return field(2, b"".join(field(1, wandb_item(*pair)) for pair in values.items()))


def wandb_stats(at: float, values: dict[str, Any]) -> bytes:
    items = b"".join(field(3, wandb_item(*pair)) for pair in values.items())
    whole, rest = divmod(round((START + at) * 1e9), 10**9)
    return field(7, field(2, field(1, whole) + field(2, rest)) + items)


def wandb_run(config: dict[str, Any], **texts: str) -> bytes:
    numbers = {"run_id": 1, "project": 3, "group": 6, "job_type": 7, "name": 8, "tag": 10,
               "host": 13}  # fmt: skip
    said = b"".join(field(numbers[name], text) for name, text in texts.items())
    updates = b"".join(field(1, wandb_item(*pair)) for pair in config.items())
    return field(17, said + field(4, updates) + field(17, field(1, START)))


def wandb_file(folder: Path, records: Iterable[bytes], name: str = "run-abc.wandb") -> Path:
    """Write LevelDB's log format: records in fragments that fill blocks."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(wandb_bytes(records))
    return path


def wandb_bytes(records: Iterable[bytes]) -> bytes:
    body = b":W&B\xe1\xbe\x00"
    for record in records:
        is_first = True
        while record or is_first:
            room = _BLOCK - len(body) % _BLOCK
            if room < 7:
                body += b"\0" * room
                continue
            part, record = record[: room - 7], record[room - 7 :]
            kind = (1 if not record else 2) if is_first else (4 if not record else 3)
            crc = zlib.crc32(bytes([kind]) + part)
            body += struct.pack("<IHB", crc, len(part), kind) + part
            is_first = False
    return body


def _plain(value: Any) -> bytes:
    if isinstance(value, bool):
        return field(4, int(value))
    return field(3, value) if isinstance(value, str) else field(2, float(value))
