"""Exports of Nsight Systems, written in its documented schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

EPOCH_NS = 1_795_507_200 * 10**9
"""2026-11-24 08:00 UTC."""
PID, OTHER_PID = 7, 8
SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER NOT NULL, duration INTEGER NOT NULL,
  startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT,
  nameEnum INTEGER, value TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT,
  busLocation TEXT, isDiscrete INTEGER, l2CacheSize INTEGER, totalMemory INTEGER, uuid TEXT);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER NOT NULL, cudaId INTEGER NOT NULL,
  pid INTEGER NOT NULL, uuid TEXT NOT NULL, numMultiprocessors INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
  shortName INTEGER NOT NULL, gridX INTEGER, gridY INTEGER, gridZ INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
  eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
  returnValue INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
  rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
  endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL,
  value INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL,
  typeName TEXT NOT NULL, metricId INTEGER NOT NULL, metricName TEXT NOT NULL);
"""
"""https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "SQLite Schema Reference"; of the
widest tables the columns that matter."""
_MS = 1_000_000


class Export:
    """One file. Times in milliseconds since the session began."""

    def __init__(self, path: Path, host: str = "node-1", with_epoch: bool = True) -> None:
        path.unlink(missing_ok=True)
        self.path, self._database, self._strings = path, sqlite3.connect(path), dict[str, int]()
        self._database.executescript(SCHEMA)
        if with_epoch:
            self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=EPOCH_NS)
        self.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", value=host)

    def add(self, table: str, **values: Any) -> None:
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608
        self._database.execute(statement, list(values.values()))

    def text(self, text: str) -> int:
        number = self._strings.setdefault(text, len(self._strings) + 1)
        self._database.execute("INSERT OR IGNORE INTO StringIds VALUES (?, ?)", (number, text))
        return number

    def kernel(self, name: str, start: float, length: float, gpu: int = 0, pid: int = PID) -> None:
        self._on_gpu("KERNEL", start, length, gpu, pid, shortName=self.text(name.split("<")[0]),
                     demangledName=self.text(name))  # fmt: skip

    def copy(self, kind: int, start: float, length: float, gpu: int = 0) -> None:
        self._on_gpu("MEMCPY", start, length, gpu, PID, bytes=4096, copyKind=kind)

    def memset(self, start: float, length: float) -> None:
        self._on_gpu("MEMSET", start, length, 0, PID, bytes=4096, value=0)

    def call(self, name: str, start: float, length: float) -> None:
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", **_times(start, length), eventClass=0,
                 globalTid=PID << 24 | 1, nameId=self.text(name), returnValue=0)  # fmt: skip

    def range(
        self, name: str, start: float, length: float, pid: int = PID, is_by_number: bool = False
    ) -> None:
        text = {"textId": self.text(name)} if is_by_number else {"text": name}
        self.add("NVTX_EVENTS", **_times(start, length), eventType=59, globalTid=pid << 24 | 1,
                 **text)  # fmt: skip

    def metric(self, name: str, values: Iterable[int], every: float = 10.0, gpu: int = 0) -> None:
        number = self.text(name)
        self.add("TARGET_INFO_GPU_METRICS", typeId=gpu, sourceId=0, typeName="GA100",
                 metricId=number, metricName=name)  # fmt: skip
        for place, value in enumerate(values):
            self.add("GPU_METRICS", timestamp=round(place * every * _MS), typeId=2**40 + gpu,
                     metricId=number, value=value)  # fmt: skip

    def saved(self) -> Path:
        self._database.commit()
        self._database.close()
        return self.path

    def _on_gpu(
        self, kind: str, start: float, length: float, gpu: int, pid: int, **more: int
    ) -> None:
        self.add(f"CUPTI_ACTIVITY_KIND_{kind}", **_times(start, length), deviceId=gpu, contextId=1,
                 streamId=7, globalPid=pid << 24, **more)  # fmt: skip


def _times(start: float, length: float) -> dict[str, int]:
    return {"start": round(start * _MS), "end": round((start + length) * _MS)}
