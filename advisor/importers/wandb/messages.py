"""Records of a W&B run that matter here.

Field numbers: https://github.com/wandb/wandb/blob/main/wandb/proto/wandb_internal.proto. Values are
JSON, or in newer histories of their own type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.importers import protobuf
from advisor.importers.json_text import parse_json
from advisor.importers.protobuf import Body, Value
from advisor.importers.recording import RecordedMachine
from advisor.importers.stated_facts import to_printable_name

HISTORY, SUMMARY, CONFIG, STATS, RUN, EXIT, ENVIRONMENT = 2, 3, 5, 7, 17, 18, 26
_KEY, _NESTED_KEY, _BOOLEAN, _INTEGER, _NUMBER, _JSON = 1, 2, 4, 5, 6, 16
_HISTORY_ITEM, _HISTORY_STEP, _STEP_NUM = 1, 2, 1
_CONFIG_UPDATE, _CONFIG_REMOVE = 1, 2
_STATS_TIME, _STATS_ITEM = 2, 3
_SECONDS, _NANOS = 1, 2
_RUN_TEXTS = {1: "run_id", 3: "project", 6: "group", 7: "job_type", 8: "name", 13: "host"}
_RUN_CONFIG, _RUN_SUMMARY, _RUN_TAGS, _RUN_START = 4, 5, 10, 17
_SUMMARY_UPDATE, _SUMMARY_REMOVE = 1, 2
_EXIT_CODE, _EXIT_NOT_COMPLETE = 1, 3
_ENV_HOST, _ENV_CORES, _ENV_GPU_TYPE, _ENV_GPU_COUNT = 12, 17, 18, 19
_ENV_MEMORY, _ENV_CPU, _ENV_NVIDIA = 21, 22, 24
_GPU_NAME, _GPU_MEMORY, _MEMORY_TOTAL, _CPU_MODEL = 1, 2, 1, 3
_MOST_GPUS = 64
_MOST_JSON_BYTES = 64 * 1024
"""The most bytes of a value. Larger ones are tables."""
_MOST_CONFIG, _MOST_SUMMARY, _MOST_TAGS = 5_000, 5_000, 100
_MOST_DEPTH = 8
"""The most names of a nested value."""
_TYPED = "_type"
"""A key of values that are files, such as images and tables."""
_OWN_CONFIG = "_wandb"


@dataclass
class WandbRun:
    """The facts that a file states of its run, as far as it was read.

    Attributes:
        texts: `run_id`, `project`, `group`, `job_type`, `name`, `host`.
        start_seconds: Unix time; 0: unknown.
        exit_code: None: the run has no end.
    """

    texts: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    """The last values of the run, or those that the script set; names of nested ones have dots."""
    start_seconds: float = 0.0
    exit_code: int | None = None
    machine: RecordedMachine = field(default_factory=RecordedMachine)


@dataclass(frozen=True)
class Logged:
    """A row of the history or of the system's statistics. `seconds`: Unix time, if it has one."""

    seconds: float | None
    step: int | None
    values: Mapping[str, Any]


def kind_of(record: Body) -> tuple[int, memoryview]:
    """Return the kind of a record, and its content. Raises DamagedError."""
    known = (HISTORY, SUMMARY, CONFIG, STATS, RUN, EXIT, ENVIRONMENT)
    for number, value in protobuf.fields(record):
        if number in known and isinstance(value, memoryview):
            return number, value
    return 0, protobuf.EMPTY


def history(content: Body) -> Logged:
    """Parse a record of the history. Raises DamagedError."""
    values: dict[str, Any] = {}
    step = None
    for number, value in protobuf.fields(content):
        if number == _HISTORY_ITEM and isinstance(value, memoryview):
            values.update([_item(value)])
        elif number == _HISTORY_STEP and isinstance(value, memoryview):
            step = protobuf.to_signed(protobuf.by_number(value).get(_STEP_NUM, 0))
    return Logged(_seconds(values), values.get("_step", step), values)


def statistics(content: Body) -> Logged:
    """Parse a record of system metrics. Raises DamagedError."""
    seconds, values = None, dict[str, Any]()
    for number, value in protobuf.fields(content):
        if number == _STATS_TIME and isinstance(value, memoryview):
            seconds = _timestamp(value)
        elif number == _STATS_ITEM and isinstance(value, memoryview):
            values.update([_item(value)])
    return Logged(seconds, None, values)


def add_to(run: WandbRun, kind: int, content: Body) -> None:
    """Add what a record says of the run. Raises DamagedError."""
    if kind == CONFIG:
        _configure(run, content)
    elif kind == SUMMARY:
        _summarise(run, content)
    elif kind == RUN:
        _describe(run, content)
    elif kind == ENVIRONMENT:
        run.machine = _machine(run, content)
    elif kind == EXIT:
        found = protobuf.by_number(content)
        if not protobuf.to_signed(found.get(_EXIT_NOT_COMPLETE, 0)):
            run.exit_code = protobuf.to_signed(found.get(_EXIT_CODE, 0))


def _item(item: Body) -> tuple[str, Any]:
    """Return key and value; None for a value of another kind, or damaged."""
    key, nested = "", list[str]()
    said: Any = None
    for number, value in protobuf.fields(item):
        if number == _KEY:
            key = protobuf.text(value)
        elif number == _NESTED_KEY:
            nested.append(protobuf.text(value))
        elif number == _BOOLEAN:
            said = bool(value)
        elif number == _INTEGER and isinstance(value, int):
            said = value >> 1 ^ -(value & 1)  # sint64: zigzag
        elif number == _NUMBER:
            said = protobuf.number(value)
        elif number == _JSON:
            said = _parsed(value)
    return key or ".".join(nested), said


def _parsed(value: Value) -> Any:
    """Return what may be a number or a part of the configuration; None: it is neither."""
    if isinstance(value, int) or len(value) > _MOST_JSON_BYTES:
        return None
    try:
        return parse_json(protobuf.text(value))
    except ValueError:
        return None


def _seconds(values: Mapping[str, Any]) -> float | None:
    said = values.get("_timestamp")
    return float(said) if isinstance(said, int | float) and abs(said) < 1e15 else None


def _timestamp(content: Body) -> float:
    found = protobuf.by_number(content)
    seconds, nanos = (protobuf.to_signed(found.get(number, 0)) for number in (_SECONDS, _NANOS))
    return seconds + nanos / 1e9


def _configure(run: WandbRun, content: Body) -> None:
    for number, value in protobuf.fields(content):
        if not isinstance(value, memoryview):
            continue
        key, said = _item(value)
        if number == _CONFIG_UPDATE and key != _OWN_CONFIG and len(run.config) < _MOST_CONFIG:
            run.config[key] = said
        elif number == _CONFIG_REMOVE:
            run.config.pop(key, None)


def _summarise(run: WandbRun, content: Body) -> None:
    for number, value in protobuf.fields(content):
        if not isinstance(value, memoryview):
            continue
        key, said = _item(value)
        if number == _SUMMARY_REMOVE:
            run.summary.pop(key, None)
        elif number == _SUMMARY_UPDATE:
            for name, each in _flat(key, said):
                if name in run.summary or len(run.summary) < _MOST_SUMMARY:
                    run.summary[name] = each


def _flat(name: str, said: Any, depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the values within a nested one, such as the minimum of a metric."""
    if not isinstance(said, dict) or _TYPED in said or depth > _MOST_DEPTH:
        yield name, said
        return
    for key, each in said.items():
        yield from _flat(f"{name}.{key}", each, depth + 1)


def _describe(run: WandbRun, content: Body) -> None:
    for number, value in protobuf.fields(content):
        if number in _RUN_TEXTS and protobuf.text(value):
            run.texts[_RUN_TEXTS[number]] = to_printable_name(protobuf.text(value))
        elif number == _RUN_CONFIG and isinstance(value, memoryview):
            _configure(run, value)
        elif number == _RUN_SUMMARY and isinstance(value, memoryview):
            _summarise(run, value)
        elif number == _RUN_TAGS and len(run.tags) < _MOST_TAGS:
            run.tags.append(to_printable_name(protobuf.text(value)))
        elif number == _RUN_START and isinstance(value, memoryview):
            run.start_seconds = _timestamp(value)


def _machine(run: WandbRun, content: Body) -> RecordedMachine:
    """Return what is known of the machine so far, with what this record adds."""
    found = protobuf.by_number(content)
    known = run.machine
    if host := protobuf.text(found.get(_ENV_HOST, protobuf.EMPTY)):
        run.texts.setdefault("host", to_printable_name(host))
    cores = protobuf.to_signed(found.get(_ENV_CORES, 0))
    return RecordedMachine(
        vcpus=cores if 0 < cores < 100_000 else known.vcpus,
        memory_bytes=_bytes(found.get(_ENV_MEMORY)) or known.memory_bytes,
        cpu_model=_model(found.get(_ENV_CPU)) or known.cpu_model,
        gpus=tuple(_gpus(content, found)) or known.gpus,
    )


def _gpus(content: Body, found: Mapping[int, Value]) -> Iterator[tuple[str, int]]:
    named = list(protobuf.children(content, _ENV_NVIDIA))[:_MOST_GPUS]
    for each in named:
        parts = protobuf.by_number(each)
        model = protobuf.text(parts.get(_GPU_NAME, protobuf.EMPTY))
        yield to_printable_name(model), _size(parts.get(_GPU_MEMORY, 0))
    if not named and (model := protobuf.text(found.get(_ENV_GPU_TYPE, protobuf.EMPTY))):
        count = protobuf.to_signed(found.get(_ENV_GPU_COUNT, 0))
        yield from [(to_printable_name(model), 0)] * min(max(count, 0), _MOST_GPUS)


def _bytes(memory: Value | None) -> int:
    if not isinstance(memory, memoryview):
        return 0
    return _size(protobuf.by_number(memory).get(_MEMORY_TOTAL, 0))


def _model(cpu: Value | None) -> str:
    if not isinstance(cpu, memoryview):
        return ""
    return to_printable_name(protobuf.text(protobuf.by_number(cpu).get(_CPU_MODEL, protobuf.EMPTY)))


def _size(value: Value) -> int:
    size = protobuf.to_signed(value)
    return size if 0 < size < 2**50 else 0
