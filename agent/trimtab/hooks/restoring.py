"""Finds the step that a loaded checkpoint holds, from names and whole numbers only.

Nothing is unpickled here. Known are: what the script's own load returned, the state that Hugging
Face's Trainer writes beside its files, the head of a safetensors file, and names such as
`step_1200.pt`. A number in another name, such as `checkpoint_3.pt`, may count epochs.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from trimtab.ring import NOT_KNOWN

_KEYS = ("global_step", "step", "iteration", "iter", "num_updates", "iter_num", "steps")
_IN_NAME = re.compile(
    r"(?:^|[^a-z])(?:global[-_]?)?(?:step|steps|iter|iteration)[-_=]?(\d{1,15})(?!\d)"
)
_IN_STATE = re.compile(rb'"global_step":\s*(\d{1,15})\b')
_IN_HEAD = re.compile(rb'"(?:global_)?step":\s*"(\d{1,15})"')
_HEAD_BYTES = 16_384
_MOST = 2**53


def step_of(result: Any, file: Any) -> int:
    """Return the training steps that a checkpoint holds, or NOT_KNOWN if it doesn't say.

    Args:
        result: what the script's own call returned.
        file: what it was called with: a path, or a file that tells nothing.
    """
    told = _of_result(result)
    if told == NOT_KNOWN and isinstance(file, (str, os.PathLike)):
        told = _of_path(Path(file))
    return told


def size_of(file: Any) -> int:
    with suppress(OSError, TypeError, ValueError):
        if isinstance(file, (str, os.PathLike)):
            return os.path.getsize(file)  # noqa: PTH202
    return NOT_KNOWN


def _of_result(result: Any) -> int:
    """Return the step in a plain dictionary: other types may run code of their own when they are
    asked.
    """
    if type(result) is dict:
        for key in _KEYS:
            value = result.get(key)
            if type(value) is int and 0 <= value < _MOST:
                return value
    return NOT_KNOWN


def _of_path(path: Path) -> int:
    for found in (
        _in_file(path.parent / "trainer_state.json", _IN_STATE),
        _in_file(path, _IN_HEAD) if path.suffix == ".safetensors" else NOT_KNOWN,
        _in_name(path.name),
        _in_name(path.parent.name),
    ):
        if found != NOT_KNOWN:
            return found
    return NOT_KNOWN


def _in_file(path: Path, pattern: re.Pattern[bytes]) -> int:
    with suppress(OSError, ValueError):
        with path.open("rb") as file:
            match = pattern.search(file.read(_HEAD_BYTES))
        return int(match[1]) if match else NOT_KNOWN
    return NOT_KNOWN


def _in_name(name: str) -> int:
    match = _IN_NAME.search(name.lower())
    return int(match[1]) if match else NOT_KNOWN
