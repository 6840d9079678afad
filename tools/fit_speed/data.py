"""Public speed measurements, as comparable groups."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from advisor.speed.data_sheets import data_sheet
from advisor.speed.measurement import Measurement

FILES = ("measurements.csv", "measurements_more.csv")
NEWEST = ("measurements_2026.csv",)
"""GPUs and programs of 2026: no parameter is fitted on them, but the rule for half precision was
chosen with them in view."""
_KEY = ["dataset", "group", "workload", "batch_size", "precision", "mode", "n_gpus", "sharding"]
_FAULTY = math.log(5)


@dataclass(frozen=True)
class Case:
    """One configuration and its throughput on several GPUs."""

    dataset: str
    workload: str
    batch: float | None
    precision: str
    gpus: int
    configuration: str
    """Unique among all cases."""
    throughputs: dict[str, float]
    utilisation: dict[str, tuple[float, str]]
    """GPU -> percent and kind, where measured."""

    def measurement(self, gpu: str) -> Measurement:
        util_pct, util_kind = self.utilisation.get(gpu, (None, ""))
        return Measurement(
            workload=self.workload,
            gpu=gpu,
            throughput=self.throughputs[gpu],
            precision=self.precision,
            batch=self.batch,
            gpus=self.gpus,
            util_pct=util_pct,
            util_kind=util_kind,
        )


def read_cases(folder: Path, files: Sequence[str] = FILES) -> list[Case]:
    """Return every group of comparable rows that ran on two GPUs or more, in a stable order."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for name in files:
        with (folder / name).open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                if float(row["n_gpus"]) > 0 and data_sheet(row["gpu_key"]):
                    row["sharding"] = _sharding(row["note"])
                    groups[tuple(row[column] for column in _KEY)].append(row)
    cases = [_case(key, groups[key]) for key in sorted(groups)]
    return [case for case in cases if len(case.throughputs) > 1]


def leave_out_faults(case: Case) -> Case:
    """Return the case without GPUs on which the training did not fit or hung: 5 times off the data
    sheets.
    """
    logs = {gpu: math.log(value) - _plain(gpu) for gpu, value in case.throughputs.items()}
    middle = median(logs.values())
    kept = {gpu: case.throughputs[gpu] for gpu in logs if abs(logs[gpu] - middle) < _FAULTY}
    return Case(**(case.__dict__ | {"throughputs": kept}))


def is_slice(case: Case) -> bool:
    return any("/mig" in gpu for gpu in case.throughputs)


def _plain(gpu: str) -> float:
    """Return the data sheet's log ratio. Raises KeyError if the GPU has no data sheet."""
    sheet = data_sheet(gpu)
    if sheet is None:
        raise KeyError(gpu)
    return sheet.log_ratio


def _sharding(note: str) -> str:
    """LLM Foundry's rows are comparable only at equal micro batch and sharding."""
    found = re.match(r"(mbs \d+) gbs \d+ (shard .*?) MFU", note)
    return " ".join(found.groups()) if found else ""


def _case(key: tuple[str, ...], rows: Sequence[dict[str, str]]) -> Case:
    dataset, group, workload, batch, precision, _, gpus, _ = key
    logs: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        logs[row["gpu_key"]].append(math.log(float(row["throughput"])))
    return Case(
        dataset=dataset,
        workload=f"{group}/{workload}",
        batch=float(batch) if batch else None,
        precision=precision,
        gpus=int(gpus),
        configuration="|".join(key),
        throughputs={gpu: math.exp(median(values)) for gpu, values in logs.items()},
        utilisation={
            row["gpu_key"]: (float(row["util_pct"]), row["util_kind"])
            for row in rows
            if row["util_pct"]
        },
    )


def datasets(cases: Sequence[Case]) -> list[str]:
    return sorted({case.dataset for case in cases})
