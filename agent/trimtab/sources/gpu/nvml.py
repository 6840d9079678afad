"""The part of NVML, the library of NVIDIA's driver, that the agent uses, by ctypes.

Only the functions and structures that the agent needs are declared. `pynvml`, which declares all of
NVML, keeps 4 MiB of memory, and 16 where it isn't compiled: the agent takes 28 without it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ctypes import Structure, Union, byref, c_double, c_int, c_uint, c_ulonglong, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

LIBRARY = "libnvidia-ml.so.1"

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 3, 4, 6
_INSUFFICIENT_SIZE, _FUNCTION_NOT_FOUND = 7, 13
_REASONS = {
    1: "uninitialized",
    2: "invalid_argument",
    NOT_SUPPORTED: "not_supported",
    NO_PERMISSION: "no_permission",
    NOT_FOUND: "not_found",
    9: "driver_not_loaded",
    11: "irq_issue",
    12: "library_not_found",
    _FUNCTION_NOT_FOUND: "function_not_found",
    14: "corrupted_inforom",
    15: "gpu_is_lost",
    16: "reset_required",
    17: "operating_system",
    18: "lib_rm_version_mismatch",
    19: "in_use",
    20: "memory",
    25: "argument_version_mismatch",
    26: "deprecated",
    28: "gpu_not_found",
}
DRIVER_GONE = frozenset((1, 9))
GPU_LOST = DRIVER_GONE | {15, 16, 28}
NEVER = frozenset((NOT_SUPPORTED, NO_PERMISSION, _FUNCTION_NOT_FOUND, 25, 26))
"""Answers that stay the same however often the driver is asked."""

CLOCK_SM, CLOCK_MEMORY = 1, 2
_UTILISATION_SAMPLES = 1
_XID_EVENT = 8
_TEXT_BYTES = 96
_MOST_PROCESSES = 1024
_MOST_SAMPLES = 256
_DONT_NEED = 4
"""The advice MADV_DONTNEED of madvise(2)."""
_DRIVER_LIBRARIES = ("libcuda.", "libnvidia-")


class NvmlError(Exception):
    """An answer of the driver other than success."""

    def __init__(self, code: int) -> None:
        super().__init__(_REASONS.get(code, f"error_{code}"))
        self.code = code

    @property
    def reason(self) -> str:
        return str(self.args[0])


class Memory(Structure):
    """Memory of a GPU in bytes; `used` is without what the driver reserves."""

    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


class _OlderMemory(Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Utilisation(Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Value(Union):
    _fields_ = (
        ("double", c_double),
        ("uint", c_uint),
        ("ulong", ctypes.c_ulong),
        ("ulonglong", c_ulonglong),
        ("longlong", ctypes.c_longlong),
        ("int", c_int),
        ("ushort", ctypes.c_ushort),
    )


_VALUE_TYPES = ("double", "uint", "ulong", "ulonglong", "longlong", "int", "ushort")


class _Sample(Structure):
    _fields_ = (("at_us", c_ulonglong), ("value", _Value))


class FieldValue(Structure):
    """One field's answer; `answer` is the driver's code."""

    _fields_ = (
        ("number", c_uint),
        ("scope", c_uint),
        ("at_us", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("type", c_uint),
        ("answer", c_int),
        ("value", _Value),
    )

    @property
    def count(self) -> int:
        return int(getattr(self.value, _VALUE_TYPES[self.type]))


class GpuProcess(Structure):
    """A process on a GPU; `memory_bytes` is `UNKNOWN_MEMORY` where the driver doesn't know it."""

    _fields_ = (
        ("pid", c_uint),
        ("memory_bytes", c_ulonglong),
        ("instance", c_uint),
        ("compute_instance", c_uint),
    )


UNKNOWN_MEMORY = 2**64 - 1


class _GpmSupport(Structure):
    _fields_ = (("version", c_uint), ("is_supported", c_uint))


class _GpmMetric(Structure):
    _fields_ = (
        ("number", c_uint),
        ("answer", c_uint),
        ("value", c_double),
        ("texts", ctypes.c_char_p * 3),
    )


class GpmQuestion(Structure):
    """The metrics that are wanted between two samples, and their values afterwards."""

    _fields_ = (
        ("version", c_uint),
        ("count", c_uint),
        ("before", c_void_p),
        ("now", c_void_p),
        ("metrics", _GpmMetric * 512),
    )


class _Event(Structure):
    _fields_ = (
        ("device", c_void_p),
        ("kind", c_ulonglong),
        ("data", c_ulonglong),
        ("instance", c_uint),
        ("compute_instance", c_uint),
    )


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(LIBRARY)


def _call(name: str, *arguments: Any) -> None:
    try:
        function = getattr(_library(), name)
    except AttributeError:
        raise NvmlError(_FUNCTION_NOT_FOUND) from None
    answer = function(*arguments)
    if answer:
        raise NvmlError(answer)


def _number(name: str, *arguments: Any, kind: Any = c_uint) -> int:
    number = kind()
    _call(name, *arguments, byref(number))
    return int(number.value)


def _text(name: str, handle: c_void_p) -> str:
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    _call(name, handle, buffer, c_uint(_TEXT_BYTES))
    return buffer.value.decode(errors="replace")


def initialise() -> None:
    """Open the driver. Raises OSError if the library can't be loaded."""
    _call("nvmlInitWithFlags", c_uint(0))


def give_back_memory() -> None:
    """Return to the system what was needed for loading only.

    That is freed memory, some MiB where no module was compiled before, and 4 MiB of the driver's
    libraries: NVML opens that of CUDA, whose tables were read once. What is used again comes back
    from the system's cache of files.
    """
    with suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.malloc_trim(0)
        lines = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace").splitlines()
        for begin, end in unwritten_mappings(lines):
            libc.madvise(c_void_p(begin), ctypes.c_size_t(end - begin), c_int(_DONT_NEED))


def unwritten_mappings(smaps: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the addresses of private, read-only, unwritten mappings of the driver's libraries.

    Pages that were written, by the linker for instance, are `Anonymous` or in the swap. Nothing
    else is touched: agents that gave back other mappings, too, ended on a real GPU.
    """
    begin = end = 0
    for line in smaps:
        words = line.split()
        if not words[0].endswith(":"):
            begin, end = _file_mapping(words)
        elif words[0] in ("Anonymous:", "Swap:") and words[1] != "0":
            end = 0
        elif words[0] == "Swap:" and end:
            yield begin, end


def _file_mapping(words: Sequence[str]) -> tuple[int, int]:
    """Return the addresses in a mapping's first line; (0, 0) if it must be kept."""
    is_library = len(words) == 6 and Path(words[5]).name.startswith(_DRIVER_LIBRARIES)
    if not is_library or words[1] not in ("r--p", "r-xp"):
        return 0, 0
    begin, end = (int(at, 16) for at in words[0].split("-"))
    return begin, end


def device_count() -> int:
    return _number("nvmlDeviceGetCount_v2")


def open_device(number: int) -> c_void_p:
    handle = c_void_p()
    _call("nvmlDeviceGetHandleByIndex_v2", c_uint(number), byref(handle))
    return handle


def device_name(handle: c_void_p) -> str:
    return _text("nvmlDeviceGetName", handle)


def device_uuid(handle: c_void_p) -> str:
    return _text("nvmlDeviceGetUUID", handle)


def memory(handle: c_void_p) -> Memory | _OlderMemory:
    """Return the GPU's memory, without the driver's part of it if the driver tells it apart."""
    newer = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
    try:
        _call("nvmlDeviceGetMemoryInfo_v2", handle, byref(newer))
    except NvmlError as error:
        if error.code not in NEVER:
            raise
        older = _OlderMemory()
        _call("nvmlDeviceGetMemoryInfo", handle, byref(older))
        return older
    return newer


def utilisation(handle: c_void_p) -> tuple[int, int]:
    """Return the per cent of the driver's last sample in which kernels ran and memory moved."""
    rates = _Utilisation()
    _call("nvmlDeviceGetUtilizationRates", handle, byref(rates))
    return rates.gpu, rates.memory


def busy_samples(handle: c_void_p, after_us: int) -> list[tuple[int, int]]:
    """Return the driver's samples of utilisation later than `after_us`: wall time in us, per cent.

    Its buffer holds 71 to 100, those of about 14 seconds.
    """
    kind, count, samples = c_int(), c_uint(_MOST_SAMPLES), (_Sample * _MOST_SAMPLES)()
    arguments = handle, c_int(_UTILISATION_SAMPLES), c_ulonglong(after_us), byref(kind)
    try:
        _call("nvmlDeviceGetSamples", *arguments, byref(count), samples)
    except NvmlError as error:
        if error.code != NOT_FOUND:
            raise
        return []
    found = ((sample.at_us, sample.value.uint) for sample in samples[: count.value])
    return [(at_us, per_cent) for at_us, per_cent in found if at_us > after_us]


def clock_mhz(handle: c_void_p, kind: int) -> int:
    return _number("nvmlDeviceGetClockInfo", handle, c_int(kind))


def power_milliwatts(handle: c_void_p) -> int:
    """Return the mean power over the last second (some older models: at this moment)."""
    return _number("nvmlDeviceGetPowerUsage", handle)


def energy_millijoules(handle: c_void_p) -> int:
    return _number("nvmlDeviceGetTotalEnergyConsumption", handle, kind=c_ulonglong)


def temperature_celsius(handle: c_void_p) -> int:
    return _number("nvmlDeviceGetTemperature", handle, c_int(0))


def throttle_reasons(handle: c_void_p) -> int:
    """Return the bits that say what holds the clocks down. Drivers before 535 use another name."""
    try:
        return _number("nvmlDeviceGetCurrentClocksEventReasons", handle, kind=c_ulonglong)
    except NvmlError as error:
        if error.code != _FUNCTION_NOT_FOUND:
            raise
        return _number("nvmlDeviceGetCurrentClocksThrottleReasons", handle, kind=c_ulonglong)


def pcie_generation(handle: c_void_p) -> int:
    return _number("nvmlDeviceGetCurrPcieLinkGeneration", handle)


def pcie_lanes(handle: c_void_p) -> int:
    return _number("nvmlDeviceGetCurrPcieLinkWidth", handle)


def fields(handle: c_void_p, wanted: Sequence[tuple[int, int]]) -> Sequence[FieldValue]:
    """Return the answers about fields, each wanted by its number and scope."""
    answers = (FieldValue * len(wanted))(
        *(FieldValue(number=n, scope=scope) for n, scope in wanted)
    )
    _call("nvmlDeviceGetFieldValues", handle, c_int(len(wanted)), answers)
    return answers  # type: ignore[return-value] # an array of ctypes is one


def processes(handle: c_void_p) -> list[GpuProcess]:
    """Return the processes that compute on the GPU."""
    return _processes(handle, "nvmlDeviceGetComputeRunningProcesses_v3")


def mps_processes(handle: c_void_p) -> list[GpuProcess]:
    """Return the processes that share the GPU through NVIDIA's Multi-Process Service."""
    return _processes(handle, "nvmlDeviceGetMPSComputeRunningProcesses_v3")


def _processes(handle: c_void_p, name: str) -> list[GpuProcess]:
    room = 16
    while True:
        count, found = c_uint(room), (GpuProcess * room)()
        try:
            _call(name, handle, byref(count), found)
        except NvmlError as error:
            if error.code != _INSUFFICIENT_SIZE or room >= _MOST_PROCESSES:
                raise
            room = min(2 * max(count.value, room), _MOST_PROCESSES)
            continue
        return list(found[: count.value])


def slices(handle: c_void_p) -> Iterator[tuple[int, c_void_p]]:
    """Yield the number and handle of each MIG slice; none if the GPU isn't cut into slices."""
    mode, pending = c_uint(), c_uint()
    try:
        _call("nvmlDeviceGetMigMode", handle, byref(mode), byref(pending))
        most = _number("nvmlDeviceGetMaxMigDeviceCount", handle) if mode.value else 0
    except NvmlError as error:
        if error.code in GPU_LOST:
            raise
        return
    for index in range(most):
        found = c_void_p()
        try:
            _call("nvmlDeviceGetMigDeviceHandleByIndex", handle, c_uint(index), byref(found))
        except NvmlError:
            continue
        yield index, found


def instance_of_slice(handle: c_void_p) -> int:
    return _number("nvmlDeviceGetGpuInstanceId", handle)


def offers_gpm(handle: c_void_p) -> bool:
    support = _GpmSupport(version=1)
    try:
        _call("nvmlGpmQueryDeviceSupport", handle, byref(support))
    except NvmlError:
        return False
    return bool(support.is_supported)


def new_gpm_sample() -> c_void_p:
    sample = c_void_p()
    _call("nvmlGpmSampleAlloc", byref(sample))
    return sample


def take_gpm_sample(handle: c_void_p, instance: int | None, sample: c_void_p) -> None:
    """Fill the sample from the GPU or, if `instance` is given, from that part of it."""
    if instance is None:
        _call("nvmlGpmSampleGet", handle, sample)
    else:
        _call("nvmlGpmMigSampleGet", handle, c_uint(instance), sample)


def gpm_question(metrics: Sequence[int]) -> GpmQuestion:
    question = GpmQuestion(version=1, count=len(metrics))
    for metric, number in zip(question.metrics, metrics):
        metric.number = number
    return question


def gpm_answers(question: GpmQuestion, before: c_void_p, now: c_void_p) -> list[float | None]:
    """Return the means between two samples, in the order of the question; None if not offered."""
    question.before, question.now = before, now
    _call("nvmlGpmMetricsGet", byref(question))
    return [
        None if metric.answer else metric.value for metric in question.metrics[: question.count]
    ]


class XidEvents:
    """The driver's queue of XID errors."""

    def __init__(self) -> None:
        """Open the queue. Raises NvmlError if the driver doesn't report errors."""
        self._set = c_void_p()
        _call("nvmlEventSetCreate", byref(self._set))

    def watch(self, handle: c_void_p) -> None:
        _call("nvmlDeviceRegisterEvents", handle, c_ulonglong(_XID_EVENT), self._set)

    def next(self) -> tuple[int | None, int] | None:
        """Return the address of a handle and the XID of one error; None if there is no other."""
        event = _Event()
        try:
            _call("nvmlEventSetWait_v2", self._set, byref(event), c_uint(0))
        except NvmlError:
            return None
        return event.device, int(event.data)
