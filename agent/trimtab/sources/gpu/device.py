"""One GPU and its MIG slices, as NVML shows them.

Each query is put as often as its price allows (`schedule.py`). Dear ones answer for the whole time
since their last answer, as spans. Left out on purpose: PCIe throughput gauges (20 ms a call),
encoder and decoder use, graphics clock. What a GPU doesn't offer is queried once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from ctypes import c_void_p
from functools import partial
from typing import Any

from trimtab.sources.gpu import fields, nvml
from trimtab.sources.gpu.activity import Activity
from trimtab.sources.gpu.busy import BUFFER_SECONDS, BusySamples
from trimtab.sources.gpu.energy import Energy
from trimtab.sources.gpu.inventory import Card
from trimtab.sources.gpu.occupants import Occupants
from trimtab.sources.gpu.schedule import Query, Schedule
from trimtab.sources.procfile import MEMORY_STEP_BYTES, Reading, SeriesSpan, round_bytes

_UTILISATION_SECONDS = 1.0
_MEMORY_SECONDS = _SM_CLOCK_SECONDS = 2.0
_ACTIVITY_SECONDS = 5.0
_COUNTER_SECONDS = _PROCESS_SECONDS = _MEMORY_CLOCK_SECONDS = 10.0
_TEMPERATURE_SECONDS = 5.0
_ENERGY_SECONDS = _ERROR_SECONDS = 30.0
_LINK_SECONDS = 60.0
_PCIE_SECONDS, _PCIE_MOST_SECONDS = 1.0, 2.0
"""The pauses between two reads of the counters, which begin again at 4 GiB: asked more rarely, they
would miss that."""

Tell = Callable[[str, dict[str, Any]], None]


class Device:
    """One GPU. Raises NvmlError if it can't be opened: it is lost, or access is denied."""

    def __init__(self, number: int, pids: Callable[[], Collection[int]] | None, tell: Tell) -> None:
        """Open the GPU. `pids` are the process ids of the run on this machine. `tell` records an
        event.
        """
        self.number = number
        self.handle = nvml.open_device(number)
        slices = dict(nvml.slices(self.handle))
        self.card = Card(
            model=nvml.device_name(self.handle)[:120],
            memory_bytes=_memory_size(self.handle),
            uuid=nvml.device_uuid(self.handle),
            slices=tuple(nvml.device_uuid(each) for each in slices.values()),
        )
        self._whole = _Part(f"gpu{number}")
        queries = _queries(self.handle, self._whole.spans)
        queries += _occupants(self.handle, pids, lambda kind: tell(kind, {"gpu": number}))
        self._whole.queries = queries
        self._parts = [self._whole]
        for index, handle in slices.items():
            part = _Part(f"gpu{number}.mig{index}")
            part.queries = _slice_queries(self.handle, handle, part.spans)
            self._parts.append(part)
        everything = [query for part in self._parts for query in part.queries]
        self.schedule = Schedule(
            everything, lambda rarer: tell("gpu_queries", {"gpu": number} | rarer)
        )

    def read(self, settles: bool = False) -> Reading:
        """Put the queries that are due; all of them if it `settles`. Raises NvmlError."""
        now = time.monotonic()
        for query in self.schedule.due_queries(now, settles):
            self._answer(query, now)
        return {name: value for part in self._parts for name, value in part.known_values()}

    def _answer(self, query: Query, now: float) -> None:
        try:
            query.answer(now)
        except nvml.NvmlError as error:
            if error.code in nvml.GPU_LOST:
                raise
            if error.code in nvml.NEVER:
                self.schedule.queries.remove(query)
                for part in self._parts:
                    part.queries = [each for each in part.queries if each is not query]

    def take_spans(self) -> list[SeriesSpan]:
        return [span for part in self._parts for span in part.take_spans()]

    @property
    def answered_until_ns(self) -> float:
        """Return until when all series have been answered that are answered in arrears."""
        answered = (
            query.answered_ns
            for query in self.schedule.queries
            if query.is_in_arrears and not math.isinf(query.planned_seconds)
        )
        return min(answered, default=math.inf)


class _Part:
    """The series of one entity: the GPU, or a slice of it."""

    def __init__(self, entity: str) -> None:
        self._entity = entity
        self.queries: list[Query] = []
        self.spans: list[SeriesSpan] = []

    def known_values(self) -> list[tuple[str, int | float | None]]:
        return [
            (f"{self._entity}.{name}", value)
            for query in self.queries
            for name, value in query.known.items()
        ]

    def take_spans(self) -> list[SeriesSpan]:
        taken = [span._replace(name=f"{self._entity}.{span.name}") for span in self.spans]
        self.spans.clear()
        return taken


def _queries(handle: c_void_p, spans: list[SeriesSpan]) -> list[Query]:
    """Return the queries about a whole GPU, and how often they are needed."""
    energy, memory_clock = Energy(handle), partial(_clock, handle, nvml.CLOCK_MEMORY)
    queries = [
        Query("energy_joules_total", energy.count, _ENERGY_SECONDS),
        Query("power_watts", energy.power),
        Query("throttle_reasons_bits", partial(_throttle_reasons, handle)),
        Query("memory_controller_busy_pct", partial(_utilisation, handle), _UTILISATION_SECONDS),
        Query("memory_used_bytes", partial(_memory_used, handle), _MEMORY_SECONDS),
        Query("sm_clock_mhz", partial(_clock, handle, nvml.CLOCK_SM), _SM_CLOCK_SECONDS),
        Query("temperature_celsius", partial(_temperature, handle), _TEMPERATURE_SECONDS),
        _in_arrears("busy_pct", BusySamples(handle, spans).read, BUFFER_SECONDS, BUFFER_SECONDS),
        Query("memory_clock_mhz", memory_clock, _MEMORY_CLOCK_SECONDS),
        *_counters(handle, spans),
        Query("ecc_errors_total", fields.Fields(handle, fields.ERRORS).read, _ERROR_SECONDS),
        Query("power_limit_watts", fields.Fields(handle, fields.POWER_LIMIT).read, _LINK_SECONDS),
        Query("pcie_replays_total", fields.Fields(handle, fields.REPLAYS).read, _LINK_SECONDS),
        Query("pcie_generation_count", partial(_link, handle), _LINK_SECONDS),
    ]
    return queries + _activity(handle, spans)


def _counters(handle: c_void_p, spans: list[SeriesSpan]) -> list[Query]:
    wanted = {
        "throttled_power_cap_ns_total": fields.POWER_CAP,
        "throttled_thermal_ns_total": fields.THROTTLED,
        "nvlink_bytes_total": fields.NVLINK,
    }
    return [
        _in_arrears(name, fields.FieldCounters(handle, each, spans).read, _COUNTER_SECONDS)
        for name, each in wanted.items()
    ]


def _activity(handle: c_void_p, spans: list[SeriesSpan]) -> list[Query]:
    """Return the queries for GPM and, unless GPM answers it too, for the traffic over PCIe."""
    activity = Activity(handle, spans) if nvml.offers_gpm(handle) else None
    counters = fields.FieldCounters(handle, fields.PCIE, spans)

    def traffic() -> Reading:
        if activity is not None and activity.offers_traffic:
            raise nvml.NvmlError(nvml.NOT_SUPPORTED)
        return counters.read()

    gpm = [_in_arrears("sm_active_pct", activity.read, _ACTIVITY_SECONDS)] if activity else []
    pcie = _in_arrears("pcie_bytes_total", traffic, _PCIE_SECONDS, _PCIE_MOST_SECONDS)
    return [*gpm, pcie]


def _slice_queries(whole: c_void_p, handle: c_void_p, spans: list[SeriesSpan]) -> list[Query]:
    """Return the queries about a slice. NVML doesn't report slice utilisation; GPM reports slice
    activity if it is offered.
    """
    queries = [Query("memory_used_bytes", partial(_memory_used, handle), _MEMORY_SECONDS)]
    with suppress(nvml.NvmlError):
        instance = nvml.instance_of_slice(handle)
        if nvml.offers_gpm(whole):
            read = Activity(whole, spans, instance).read
            queries.append(_in_arrears("sm_active_pct", read, _ACTIVITY_SECONDS))
    return queries


def _occupants(
    handle: c_void_p,
    pids: Callable[[], Collection[int]] | None,
    tell: Callable[[str], None],
) -> list[Query]:
    if pids is None:
        return []
    read = Occupants(handle, pids, tell).read
    return [Query("tree_memory_used_bytes", read, _PROCESS_SECONDS)]


def _in_arrears(
    name: str, read: Callable[[], Reading], every_seconds: float, most_seconds: float = math.inf
) -> Query:
    return Query(name, read, every_seconds, most_seconds, is_in_arrears=True)


def _memory_size(handle: c_void_p) -> int:
    """Return the size; 0 if the GPU has no memory of its own."""
    try:
        return int(nvml.memory(handle).total)
    except nvml.NvmlError as error:
        if error.code not in nvml.NEVER:
            raise
        return 0


def _utilisation(handle: c_void_p) -> Reading:
    busy, memory = nvml.utilisation(handle)
    return {"busy_pct": busy, "memory_controller_busy_pct": memory}


def _memory_used(handle: c_void_p) -> Reading:
    return {"memory_used_bytes": round_bytes(nvml.memory(handle).used, MEMORY_STEP_BYTES)}


def _clock(handle: c_void_p, kind: int) -> Reading:
    name = "sm_clock_mhz" if kind == nvml.CLOCK_SM else "memory_clock_mhz"
    return {name: nvml.clock_mhz(handle, kind)}


def _throttle_reasons(handle: c_void_p) -> Reading:
    return {"throttle_reasons_bits": nvml.throttle_reasons(handle)}


def _temperature(handle: c_void_p) -> Reading:
    return {"temperature_celsius": nvml.temperature_celsius(handle)}


def _link(handle: c_void_p) -> Reading:
    return {
        "pcie_generation_count": nvml.pcie_generation(handle),
        "pcie_lanes_count": nvml.pcie_lanes(handle),
    }
