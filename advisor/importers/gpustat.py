"""Output of `gpustat --json` in a file: an object for each call, one after the other.

Its fields: https://github.com/wookayin/gpustat/blob/master/gpustat/core.py.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from advisor.importers import times
from advisor.importers.gpu_rows import MOST_GPUS, GpuRow, GpuRows
from advisor.importers.nvidia_smi_text import QUERIED
from advisor.importers.recording import NotImportableError, RecordedNode
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts, to_printable_name
from advisor.importers.tally import Tally

FORMAT = "gpustat"
_MOST_FILES = 100
"""The most files that are looked at to find a recording."""
_MOST_CHARACTERS = 1024 * 1024
"""The most characters of an object; one of 64 GPUs with a hundred processes has a fifth."""
_SUFFIXES = (".json", ".jsonl", ".txt", ".log")
_TIME, _BEGINNING = "query_time", re.compile(r'\s*\{\s*"hostname"\s*:')
_MODEL_CHARS = 200
_MIB = 2**20


def recognises(source: Source) -> bool:
    """Return whether a file begins as gpustat's output does."""
    return any(_is_recording(source, path) for path in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> GpustatRecording:
    """Open the first recording.

    Raises:
        NotImportableError: no object has a time and a GPU.
    """
    del stated
    return GpustatRecording(source, tally)


class GpustatRecording(GpuRows):
    """The GPUs of one machine. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, tally: Tally) -> None:
        super().__init__(tally)
        self._source, self._tally = source, tally
        self._path, *others = (path for path in _candidates(source) if _is_recording(source, path))
        tally.skip("files", "a recording of another machine or time; import it alone", len(others))
        self._host = next(filter(None, map(_host, self._objects(Tally()))), "machine")
        first = next(self.rows(Tally()), None)
        if first is None:
            next(self.rows(tally), None)  # counts the lines that are none
            raise NotImportableError("no call of gpustat with a time and a GPU")
        self.number_gpus()
        self.nodes = [RecordedNode(self._host, first.time_ms)]
        tally.note("The times name no zone. They count as UTC.")

    def rows(self, tally: Tally) -> Iterator[GpuRow]:
        for said in self._objects(tally):
            if (_host(said) or self._host) != self._host:
                tally.skip("calls", "of another machine: import its file alone", 1, _host(said))
                continue
            time_ms = times.time_ms(str(said.get(_TIME, "")))
            gpus = said.get("gpus")
            if time_ms is None or not isinstance(gpus, list):
                tally.skip("calls", "no time or GPUs", 1, self._path)
                continue
            for gpu in gpus:
                row = _row(time_ms, gpu) if isinstance(gpu, dict) else None
                if row is None:
                    tally.skip("GPUs", "no number", 1, self._path)
                else:
                    yield row

    def _objects(self, tally: Tally) -> Iterator[Mapping[str, Any]]:
        """Yield the output of each call. It begins and ends with a brace that isn't indented."""
        for text in self._texts(tally):
            said = _parsed(text)
            if said is None:
                tally.skip("calls", "cut off or damaged", 1, self._path)
            else:
                yield said

    def _texts(self, tally: Tally) -> Iterator[str]:
        parts: list[str] = []
        size = 0
        for piece in self._source.lines(self._path, tally):
            for line in piece.decode(errors="replace").splitlines():
                # What follows a call that was cut off begins on the same line.
                begins = line.startswith("{") or (line[-1:] == "{" and line.lstrip() != "{")
                if parts and (begins or size > _MOST_CHARACTERS):
                    yield "\n".join(parts)
                    parts, size = [], 0
                if begins or parts:
                    line = line if line.startswith("{") or not begins else "{"
                    parts.append(line[:_MOST_CHARACTERS])
                    size += len(parts[-1])
                if parts and (line.startswith("}") or (begins and line.rstrip().endswith("}"))):
                    yield "\n".join(parts)
                    parts, size = [], 0
        if parts:
            yield "\n".join(parts)


def _candidates(source: Source) -> Iterator[str]:
    return islice((path for path in source.sizes if path.endswith(_SUFFIXES)), _MOST_FILES)


def _is_recording(source: Source, path: str) -> bool:
    text = source.text_beginning(path)
    return bool(_BEGINNING.match(text)) and f'"{_TIME}"' in text


def _parsed(text: str) -> Mapping[str, Any] | None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _host(said: Mapping[str, Any]) -> str:
    return to_printable_name(str(said.get("hostname") or ""))


def _row(time_ms: int, said: Mapping[str, Any]) -> GpuRow | None:
    """Return a GPU. One that is lost has nothing but its number."""
    index = said.get("index")
    if not isinstance(index, int) or not 0 <= index < MOST_GPUS:
        return None
    values = {
        series: _number(said[field]) * factor
        for field, (series, factor) in QUERIED.items()
        if field in said
    }
    size, name = _number(said.get("memory.total")), str(said.get("name") or "")
    memory = round(size) * _MIB if 0 < size < 10**8 else 0
    return GpuRow(time_ms, index, values, (name[:_MODEL_CHARS] * name[:1].isalnum(), memory))


def _number(said: object) -> float:
    is_number = isinstance(said, int | float) and not isinstance(said, bool)
    return float(said) if is_number and abs(said) < 1e15 else math.nan  # type: ignore[arg-type]
