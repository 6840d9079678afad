"""JSON, CSV and protobufs as no tool writes them: each is deep, long, of many parts, or packed."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator

from tests.imports import messages
from tests.imports.messages import field, varint
from tests.imports.test_csv import START

Named = Iterator[tuple[str, str, bytes]]
"""The kind of damage, the file's name, and its content."""
MANY = 200_000
HEADS = {
    "torch": ("a.pt.trace.json", b'{"schemaVersion": 1, "traceEvents": [', b"]}"),
    "dcgm": ("a.json", b'{"Timestamp": [', b'], "DCGMI - GPU Utilization": [1, 2]}'),
    "prometheus": (
        "a.json",
        b'{"status": "success", "data": {"resultType": "matrix", "result": [',
        b"]}}",
    ),
    "mlflow": ("mlflow-run.json", b'{"run": {"info": {}, "data": {"tags": [', b"]}}}"),
    "sagemaker": (
        "system/incremental/2026010100/1767225600.algo-1.json",
        b'{"Type": "cpu", "Value": [',
        b"]}\n",
    ),
    "timeline": ("framework/pevents/1767225600000000_7-algo-1_pythontimeline.json", b"[", b"]"),
}
INSIDE = {
    "deep": b"[" * MANY,
    "deep and closed": b"[" * MANY + b"]" * MANY,
    "a long number": b"9" * MANY,
    "many long numbers": b",".join([b"9" * 4_000] * 200),
    "not numbers": b"NaN, Infinity, -Infinity, 1e999, -0, null, true",
    "numbers": b",".join([b"1767225600000"] * MANY),
    "lists": b",".join([b"[]"] * MANY),
    "pairs": b",".join([b'[1, "2"]'] * MANY),
    "objects": b",".join([b'{"a":1}'] * MANY),
    "events": b",".join(
        [b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":9}'] * 9_000
    ),
    "keys": b"{" + b",".join(b'"%d":1' % n for n in range(MANY)) + b"}",
    "one key": b"{" + b",".join([b'"a":1'] * MANY) + b"}",
    "lone surrogates": b'"\\ud800", {"\\udfff": "\\ud800"}',
    "a wide text": b'"' + "\U0001f600".encode() * MANY + b'"',
    "broken ends": b"}," * 30_000,
}


def documents() -> Named:
    for form, (name, head, end) in HEADS.items():
        for what, inside in INSIDE.items():
            yield f"{form}: {what}", name, head + inside + end
            if form in ("torch", "dcgm", "prometheus"):
                yield f"{form}, packed: {what}", f"{name}.gz", gzip.compress(head + inside, 1)


def tables() -> Named:
    head = b"time,gpu0.busy_pct\n"
    row = b"%d,50\n"
    rows = head + b"".join(row % (START + n) for n in range(20))
    yield "one line", "a.csv", rows + b"1" * 20_000_000
    yield "many columns", "a.csv", b"time" + b",a" * 1_000_000
    yield "many cells", "a.csv", rows + b"," * 5_000_000
    yield "many empty lines", "a.csv", rows + b"\n" * 5_000_000
    yield "an open quote", "a.csv", rows + b'"' + b"x\n" * 500_000
    yield "NUL", "a.csv", rows + bytes(1_000_000)
    for name in ("a.csv.gz", "a.dmon.csv.gz"):
        packed = gzip.compress(rows * 50)
        yield f"{name}, cut off", name, packed[:-9]
        yield f"{name}, damaged", name, packed[:-30] + b"x" * 30
        yield f"{name}, no gzip", name, rows
        yield f"{name}, with another", name, packed + gzip.compress(rows)
        yield f"{name}, zeros", name, gzip.compress(rows + bytes(30_000_000), 1)
    for name in ("a.txt", "a.log", "gpus.csv"):
        smi = b"timestamp, index, utilization.gpu [%]\n"
        yield f"{name}: a long line", name, smi + b"x" * 9_000_000
        yield f"{name}: many words", name, b"#Entity GPUTL\n" + b"GPU " * 1_000_000


def protobufs() -> Named:
    tiny, wide = b"\x08\x01" * MANY, b"".join(varint(n << 3) + b"\1" for n in range(64, MANY))
    bodies = {
        "tiny fields": tiny,
        "many numbers": wide,
        "long integers": (b"\x08" + b"\xff" * 9 + b"\x01") * 50_000,
        "an endless integer": b"\x08" + b"\xff" * MANY,
        "groups": b"\x0b" * MANY,
        "a huge length": b"\x12\xff\xff\xff\xff\x0f",
        "empty messages": b"\x12\x00" * MANY,
        "a number of zero": b"\x00\x00",
        "nothing": b"",
    }
    for what, body in bodies.items():
        nested = {"": body, "a level, ": field(1, body), "two levels, ": field(1, field(3, body))}
        gpu = field(2, b"/device:GPU:0")
        nested["a plane, "] = field(1, gpu + body)
        nested["names, "] = field(1, gpu + field(4, field(2, body)) * 3)
        nested["a line, "] = field(1, gpu + field(3, field(2, b"Stream") + body))
        for place, content in nested.items():
            yield f"xspace: {place}{what}", "plugins/profile/1/a.xplane.pb", content
        for number in (2, 5, 7, 17, 18, 26):
            record = field(number, body[:400_000])
            fragments = messages.wandb_bytes([record])
            yield f"wandb {number}: {what}", "run-1.wandb", fragments
        event = struct.pack("<Bd", 9, START) + field(5, field(1, body[:60_000]))
        name = "events.out.tfevents.1.a"
        yield f"tensorboard: {what}", name, messages.tf_record(event)


def every() -> Named:
    yield from documents()
    yield from tables()
    yield from protobufs()
