"""Traces as people have them: a bad event costs itself, and the counts add up."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.importers import trace_text
from advisor.importers.recording import NotImportableError
from advisor.importers.tally import Tally
from tests.imports.reported import reported
from tests.imports.test_torch_trace import BASE_NS, event, kernel, read

EVENTS = 400
BAD = {
    "quotes": b'{"ph":"X","cat":"python_function","name":"{"device": "cpu"}(12)","ts":1}',
    "a backslash": rb'{"ph":"X","cat":"python_function","name":"torch\cuda\__init__.py","ts":1}',
    "no end": b'{"ph":"X","cat":"cpu_op","name":"a',
    "a word": b'{"ph":"X","cat":"cpu_op","name":unknown,"ts":1,"dur":1,"pid":1,"tid":1}',
}
READ = {
    "bad UTF-8": b'"name":"config.py(0): \xa0\xf0"',
    "control characters": b'"name":"config.py(0): \x01\x02"',
    "NaN": b'"name":"a","args":{"est. achieved occupancy %":NaN,"b":-Infinity}',
    "decimal commas": b'"name":"a","args":{"blocks per SM": 7,757576, "warps per SM": 31,03}',
}


def events(count: int = EVENTS) -> list[Any]:
    args = {"External id": 7, "Input Dims": [[64, 128], []], "Fwd thread id": 0}
    found = [event(f"aten::op{n % 9}", n * 100, 60, args=args) for n in range(count - 8)]
    return found + [kernel("gemm", n * 5_000, 900) for n in range(8)]


def text(count: int = EVENTS, indent: int | None = None) -> bytes:
    head = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS}
    return json.dumps({**head, "traceEvents": events(count)}, indent=indent).encode()


def counts(body: bytes, folder: Path, name: str = "a.pt.trace.json") -> tuple[int, int, Tally]:
    """Return the operations read, the records left out, and all that was counted."""
    path, tally = folder / name, Tally()
    path.write_bytes(gzip.compress(body, 1) if name.endswith(".gz") else body)
    read(path, tally)
    left_out = sum(each.count for each in tally.skipped.values() if each.what == "records")
    return tally.records["operations"], left_out, tally


def with_event(bad: bytes, place: int = 200) -> bytes:
    body = text()
    begins = [found.start() for found in re.finditer(rb'\{"ph"', body)]
    return body[: begins[place]] + bad + b", " + body[begins[place] :]


@pytest.mark.parametrize("what", BAD)
def test_a_bad_event_costs_itself(what, tmp_path):
    operations, left_out, tally = counts(with_event(BAD[what]), tmp_path)

    assert (operations, left_out) == (EVENTS, 1)
    ((_, why),) = tally.skipped
    assert why == trace_text.BROKEN
    assert tally.skipped["records", why].first == "a.pt.trace.json, event 201"


@pytest.mark.parametrize("what", READ)
def test_an_event_that_can_be_understood_is_read(what, tmp_path):
    odd = b'{"ph":"X","cat":"cpu_op","pid":3,"tid":3,"ts":1,"dur":5,' + READ[what] + b"}"
    assert counts(with_event(odd), tmp_path)[:2] == (EVENTS + 1, 0)


def test_a_locale_with_decimal_commas_loses_no_kernel(tmp_path):
    body = re.sub(rb'"External id": 7', rb'"blocks per SM": 1,1851852', text())
    operations, left_out, tally = counts(body, tmp_path)
    assert (operations, left_out) == (EVENTS, 0)
    assert any(f"decimal comma are read as if it were a point: {EVENTS - 8}" in note
               for note in tally.notes)  # fmt: skip


def last_first(body: bytes) -> bytes:
    document = json.loads(body)
    return json.dumps(dict(reversed(document.items()))).encode()


SAVED: dict[str, Callable[[bytes], bytes]] = {
    "with a mark": lambda body: b"\xef\xbb\xbf" + body,
    "in UTF-16": lambda body: body.decode().encode("utf-16"),
    "in UTF-16 without a mark": lambda body: body.decode().encode("utf-16-le"),
    "with its keys turned round": last_first,
    "with its keys sorted": lambda body: json.dumps(json.loads(body), sort_keys=True).encode(),
    "without a version": lambda body: body.replace(b'"schemaVersion": 1, ', b""),
    "as its list alone": lambda body: json.dumps(json.loads(body)["traceEvents"]).encode(),
}


@pytest.mark.parametrize("how", SAVED)
@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_trace_is_read_however_it_was_saved(how, name, tmp_path):
    body = SAVED[how](text())
    assert counts(body, tmp_path, name)[:2] == (EVENTS, 0)
    if how != "as its list alone":
        recording = read(tmp_path / name)
        assert recording.nodes[0].started_ms == BASE_NS // 10**6


def test_the_categories_before_pytorch_1_12_are_read(tmp_path):
    body = text().replace(b'"cpu_op"', b'"Operator"').replace(b'"kernel"', b'"Kernel"')
    (tmp_path / "a.json").write_bytes(body)
    recording = read(tmp_path / "a.json")
    assert {each.category for each in recording.operators} == {"CPU operators", "GPU kernels"}
    assert recording.nodes[0].gpus == 1


def test_a_long_trace_is_read_in_stretches_that_add_up(tmp_path, monkeypatch):
    body, tally = text(), Tally()
    for bytes_at_once in (100, 1_000, 7_777):
        monkeypatch.setattr(trace_text, "_STRETCH_BYTES", bytes_at_once)
        monkeypatch.setattr("advisor.importers.source.PIECE_BYTES", bytes_at_once)
        assert counts(body, tmp_path)[:2] == (EVENTS, 0), bytes_at_once
        assert counts(with_event(BAD["quotes"]), tmp_path)[:2] == (EVENTS, 1), bytes_at_once
    assert read(tmp_path / "a.pt.trace.json", tally).nodes[0].started_ms == BASE_NS // 10**6


def test_an_endless_event_is_left_out_by_its_length(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_text, "MOST_EVENT_BYTES", 20_000)
    monkeypatch.setattr(trace_text, "_STRETCH_BYTES", 5_000)
    monkeypatch.setattr("advisor.importers.source.PIECE_BYTES", 5_000)
    body = with_event(b'{"ph":"X","cat":"cpu_op","name":"a","args":[' + b"1," * 40_000)
    operations, left_out, _ = counts(body, tmp_path)
    assert left_out == 1
    assert EVENTS - 3 <= operations <= EVENTS


def test_tries_to_read_broken_events_have_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_text, "_TRIES_BYTES", 0)
    nested = b'{"ph":[0,0,0,' * 2_000
    path, tally = tmp_path / "a.json", Tally()
    path.write_bytes(b'{"schemaVersion":1,"traceEvents":[' + nested)
    with pytest.raises(NotImportableError, match="no operation"):
        read(path, tally)
    assert ("files", "too damaged to be read to their end") in tally.skipped


def test_a_packed_trace_that_was_cut_off_says_so(tmp_path):
    packed = gzip.compress(text(20_000), 1)
    (tmp_path / "a.json.gz").write_bytes(packed[: len(packed) // 2])
    tally = Tally()
    read(tmp_path / "a.json.gz", tally)
    assert 5_000 < tally.records["operations"] < 20_000
    assert any("the gzip stream is cut off" in each.why for each in tally.skipped.values())


def broken(body: bytes, seed: int) -> bytes:
    """Change or take away one byte, line or key, or cut a part out."""
    chance = random.Random(seed)
    at, kind = chance.randrange(len(body)), seed % 4
    if kind == 0:
        return body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]
    if kind == 1:
        end = b"\n" if b"\n" in body else b", "
        lines = body.split(end)
        del lines[chance.randrange(len(lines))]
        return end.join(lines)
    if kind == 2:
        key = chance.choice(list(re.finditer(rb'"[\w ]+": ', body)))
        return body[: key.start()] + body[key.end() :]
    return body[:at] + body[at + chance.randrange(1, 400) :]


def hold(whole: bytes, usable: int, seeds: range, folder: Path) -> None:
    for seed in seeds:
        operations, left_out, tally = counts(broken(whole, seed), folder)
        assert operations >= usable - 10, seed
        seen = operations + left_out + tally.records["moments"]
        assert usable - 5 <= seen <= usable + 2, seed


@pytest.mark.parametrize("indent", [None, 1])
def test_all_events_but_ten_survive_a_break_anywhere(indent, tmp_path):
    hold(text(indent=indent), EVENTS, range(80), tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_real_traces_survive_2_000_breaks(tmp_path):
    for name, seeds in (("bom", range(1_000)), ("resaved", range(1_000, 2_000))):
        body = gzip.decompress(reported(f"{name}.json.gz").read_bytes())
        hold(body, 502, seeds, tmp_path)


@pytest.mark.parametrize(
    ("name", "operations", "left_out"),
    [
        ("quote", 502, 3),
        ("backslash", 502, 1),
        ("badutf8", 502, 0),
        ("ctrl", 502, 0),
        ("comma", 512, 0),
        ("resaved", 502, 0),
        ("traceevents_first", 502, 0),
        ("old19", 502, 0),
        ("bom", 502, 0),
    ],
)
def test_reported_traces_are_read(name, operations, left_out, tmp_path):
    tally = Tally()
    recording = read(reported(f"{name}.json.gz"), tally)
    assert tally.records["operations"] == operations
    assert sum(each.count for each in tally.skipped.values()) == left_out
    assert recording.nodes[0].gpus == 1
