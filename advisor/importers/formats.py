"""The formats that can be imported.

Each is a module with FORMAT, `recognises` and `open_recording`.
"""

from __future__ import annotations

from typing import Protocol, cast

from advisor.importers import (
    amd_smi,
    csv_table,
    dcgm,
    dcgm_dmon,
    gpustat,
    mlflow_run,
    nsys,
    nvidia_smi,
    prometheus,
    sagemaker,
    tensorboard,
    torch_trace,
    wandb,
    xspace,
)
from advisor.importers.recording import NotImportableError, Recording
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.importers.unrecognised import why_unrecognised


class Format(Protocol):
    """One format."""

    FORMAT: str

    def recognises(self, source: Source) -> bool:
        """Return whether the folder has any file of this format."""

    def open_recording(self, source: Source, stated: StatedFacts, tally: Tally) -> Recording:
        """Open the recording in the folder. Raises NotImportableError."""


_MODULES = (
    mlflow_run,
    torch_trace,
    sagemaker,
    dcgm,
    prometheus,
    gpustat,
    nvidia_smi,
    amd_smi,
    csv_table,
    dcgm_dmon,
    nsys,
    tensorboard,
    wandb,
    xspace,
)
FORMATS = tuple(cast(Format, module) for module in _MODULES)
"""The first that recognises a folder reads it."""


def find_format(source: Source) -> Format | None:
    """Return the format of a folder, or None if it is no known one."""
    return next((each for each in FORMATS if each.recognises(source)), None)


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> Recording:
    """Return the recording in a folder.

    Raises:
        NotImportableError: no known format, or nothing in it that can be imported.
    """
    chosen = find_format(source)
    if not source.sizes:
        raise NotImportableError("there are no files in it; links aren't followed")
    if chosen is None:
        raise NotImportableError(why_unrecognised(source, [each.FORMAT for each in FORMATS]))
    return chosen.open_recording(source, stated, tally)
