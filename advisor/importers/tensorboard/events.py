"""Events of TensorBoard's files: scalars, and the hyperparameters of its plugin.

Field numbers: https://github.com/tensorflow/tensorboard/tree/master/tensorboard/compat/proto
(event.proto, summary.proto, tensor.proto) and plugins/hparams/plugin_data.proto. A scalar is a
`simple_value` or, since TensorFlow 2, a tensor with one number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from advisor.importers import protobuf
from advisor.importers.protobuf import Body, Value

_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_VALUE = 1
_TAG, _SIMPLE_VALUE, _TENSOR, _METADATA = 1, 2, 8, 9
_DTYPE, _CONTENT = 1, 4
_NUMBERS = {1: (5, "<f"), 2: (6, "<d"), 3: (7, "<i"), 9: (10, "<q")}
"""Type of a tensor (float, double, int32, int64) -> the field of its values, and their format."""
_HALF, _BFLOAT16, _HALF_VALUES = 19, 14, 13
"""The types of two bytes, and the field of their values, which are bits as whole numbers."""
_PLUGIN_DATA, _PLUGIN_NAME, _PLUGIN_CONTENT = 1, 1, 2
_HPARAMS, _SCALARS = "hparams", "scalars"
_SESSION_START, _SESSION_END = 3, 4
_START_HPARAMS, _END_STATUS = 1, 1
_MAP_KEY, _MAP_VALUE = 1, 2
_VALUE_KINDS = {2: "number", 3: "text", 4: "bool"}
"""Fields of google.protobuf.Value."""
STATES = {1: "finished", 2: "failed"}
"""The values of the plugin's `Status`."""


@dataclass(frozen=True)
class Scalar:
    """A value of one tag. `seconds`: Unix time."""

    seconds: float
    step: int
    tag: str
    value: float


@dataclass(frozen=True)
class Session:
    """The session that the hyperparameters' plugin describes. An empty `state` is unknown."""

    parameters: dict[str, Any]
    state: str


def parts_of(event: Body) -> Iterator[Scalar | Session]:
    """Yield what an event has of interest. Raises DamagedError."""
    seconds, step, summaries = None, 0, []
    for number, value in protobuf.fields(event):
        if number == _WALL_TIME:
            seconds = protobuf.number(value)
        elif number == _STEP:
            step = protobuf.to_signed(value)
        elif number == _SUMMARY and not isinstance(value, int):
            summaries.append(value)
    if seconds is None:
        return
    for summary in summaries:
        for each in protobuf.children(summary, _VALUE):
            yield from _parts(each, seconds, step)


def _parts(summary_value: Body, seconds: float, step: int) -> Iterator[Scalar | Session]:
    found: dict[int, Value] = protobuf.by_number(summary_value)
    plugin, content = _plugin(found.get(_METADATA))
    if plugin == _HPARAMS:
        yield _session(content)
        return
    if plugin not in ("", _SCALARS):
        return
    number = protobuf.number(found[_SIMPLE_VALUE]) if _SIMPLE_VALUE in found else None
    if number is None:
        number = _of_tensor(found.get(_TENSOR), is_marked=plugin == _SCALARS)
    if number is not None and _TAG in found:
        yield Scalar(seconds, step, protobuf.text(found[_TAG]), number)


def _plugin(metadata: Value | None) -> tuple[str, memoryview]:
    """Return the plugin's name and what it keeps."""
    name, content = "", protobuf.EMPTY
    if isinstance(metadata, memoryview):
        for data in protobuf.children(metadata, _PLUGIN_DATA):
            for number, value in protobuf.fields(data):
                if number == _PLUGIN_NAME:
                    name = protobuf.text(value)
                elif number == _PLUGIN_CONTENT and isinstance(value, memoryview):
                    content = value
    return name, content


def _of_tensor(tensor: Value | None, is_marked: bool) -> float | None:
    """Return the only number of a tensor. Unmarked tensors may be anything."""
    if not isinstance(tensor, memoryview) or not is_marked:
        return None
    found = protobuf.by_number(tensor)
    dtype = protobuf.to_signed(found.get(_DTYPE, 0))
    if dtype in (_HALF, _BFLOAT16):
        return _of_two_bytes(found, dtype)
    kind = _NUMBERS.get(dtype)
    if kind is None:
        return None
    values, form = kind
    content = found.get(_CONTENT, found.get(values, protobuf.EMPTY))
    if isinstance(content, int):
        return float(protobuf.to_signed(content))
    if _CONTENT not in found and form in ("<i", "<q"):
        numbers = list(protobuf.packed_varints(content))
        return float(protobuf.to_signed(numbers[0])) if len(numbers) == 1 else None
    if len(content) != struct.calcsize(form):
        return None
    return float(struct.unpack(form, content)[0])


def _of_two_bytes(found: Mapping[int, Value], dtype: int) -> float | None:
    content = found.get(_CONTENT)
    if content is None:
        said = found.get(_HALF_VALUES, protobuf.EMPTY)
        bits = [said] if isinstance(said, int) else list(protobuf.packed_varints(said))
        if len(bits) != 1 or not 0 <= bits[0] < 2**16:
            return None
        content = memoryview(struct.pack("<H", bits[0]))
    if isinstance(content, int) or len(content) != 2:
        return None
    if dtype == _HALF:
        return float(struct.unpack("<e", content)[0])
    # A bfloat16 is the first half of a float.
    return float(struct.unpack("<f", b"\0\0" + bytes(content))[0])


def _session(content: memoryview) -> Session:
    parameters: dict[str, Any] = {}
    state = ""
    for number, value in protobuf.fields(content):
        if number == _SESSION_START and isinstance(value, memoryview):
            for entry in protobuf.children(value, _START_HPARAMS):
                pair = protobuf.by_number(entry)
                name = protobuf.text(pair.get(_MAP_KEY, protobuf.EMPTY))
                parameters[name] = _plain(pair.get(_MAP_VALUE))
        elif number == _SESSION_END and isinstance(value, memoryview):
            ended = protobuf.by_number(value)
            state = STATES.get(protobuf.to_signed(ended.get(_END_STATUS, 0)), "")
    return Session(parameters, state)


def _plain(value: Value | None) -> Any:
    """Return the value of a google.protobuf.Value; None for null, or a list or structure."""
    if not isinstance(value, memoryview):
        return None
    for number, each in protobuf.fields(value):
        kind = _VALUE_KINDS.get(number)
        if kind == "number":
            known = protobuf.number(each)
            return int(known) if known is not None and known.is_integer() else known
        if kind == "text":
            return protobuf.text(each)
        if kind == "bool":
            return protobuf.to_signed(each) != 0
    return None
