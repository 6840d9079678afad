"""Fits how fast the cores of AWS's instance families are, from public benchmarks.

    python -m tools.cpu_speed --facts FOLDER    writes advisor/sizing/tables/cpu_speed.csv

The folder has `cpu_speed.csv` (benchmarks of one thread) and `cpu_llm.csv` (tokens per second of
language models on all cores). Written are fitted figures only, never the rows:

- a family's speed of one thread, relative to m5;
- the power of the number of cores that throughput grows with;
- how far the truth lies from what the speed of one thread says, on the language models, which the
  speeds were not fitted to.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from statistics import fmean, median

import numpy as np

from advisor.pricing.catalogue import catalogue
from advisor.pricing.machine import InstanceType
from advisor.sizing.cpu import TABLE, kinship

SOURCE = "SpareCores/sc-inspector-data, CC-BY-SA 4.0, 2026-08-22; fitted"
REFERENCE = "m5"
THREAD_COLUMNS = ("geekbench_single", "passmark_single")
COLUMNS = ("what", "name", "value", "low", "high", "count", "source")
INTERVAL = (10, 50, 90)
"""Percentiles: an 80 % interval."""


@dataclass(frozen=True)
class Throughput:
    """Tokens per second of one model and prompt length on one type."""

    workload: str
    machine: InstanceType
    per_second: float


def thread_speeds(lines: Iterable[Mapping[str, str]]) -> dict[str, tuple[float, int]]:
    """Return, by family, its speed of one thread relative to m5, and of how many types."""
    logs: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        family = line["instance_type"].partition(".")[0]
        for column in THREAD_COLUMNS:
            if float(line[column] or 0) > 0:
                logs[family][column].append(math.log(float(line[column])))
    whole = {f: by for f, by in logs.items() if len(by) == len(THREAD_COLUMNS)}
    levels = {f: fmean(median(each) for each in by.values()) for f, by in whole.items()}
    return {
        family: (math.exp(level - levels[REFERENCE]), len(whole[family][THREAD_COLUMNS[0]]))
        for family, level in levels.items()
    }


def throughputs(lines: Iterable[Mapping[str, str]]) -> list[Throughput]:
    """Return the figures of bundled types whose clock is known, without burstable ones."""
    known = catalogue()
    return [
        Throughput(f"{line['model']} {line['n_prompt']}", known[name], float(line["tok_s"]))
        for line in lines
        if (name := line["instance_type"]) in known
        and known[name].clock_ghz
        and not known[name].is_burstable
    ]


def by_workload(figures: Iterable[Throughput]) -> dict[str, list[Throughput]]:
    grouped: dict[str, list[Throughput]] = defaultdict(list)
    for figure in figures:
        grouped[figure.workload].append(figure)
    return dict(grouped)


def size_exponent(figures: Iterable[Throughput]) -> float:
    """Return the slope of log throughput on log cores within families, of one workload."""
    families: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for each in figures:
        point = math.log(each.machine.vcpus), math.log(each.per_second)
        families[each.machine.family].append(point)
    several = [np.array(points) for points in families.values() if len(points) > 1]
    centred = np.concatenate([points - points.mean(axis=0) for points in several])
    return float((centred[:, 0] * centred[:, 1]).sum() / (centred[:, 0] ** 2).sum())


def family_levels(figures: Iterable[Throughput], exponent: float) -> dict[str, float]:
    """Return the mean log throughput at one core by family, of one workload."""
    logs: dict[str, list[float]] = defaultdict(list)
    for each in figures:
        level = math.log(each.per_second) - exponent * math.log(each.machine.vcpus)
        logs[each.machine.family].append(level)
    return {family: fmean(levels) for family, levels in logs.items()}


def residuals(figures: Iterable[Throughput], speeds: Mapping[str, float]) -> dict[str, list[float]]:
    """Return the log of the true ratio over the predicted one by kinship of two families, always
    from the family with slower threads to the faster one.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for workload in by_workload(figures).values():
        machines = {each.machine.family: each.machine for each in workload}
        levels = family_levels(workload, size_exponent(workload))
        for slow, fast in permutations(machines, 2):
            if not (slow in speeds and fast in speeds) or speeds[slow] > speeds[fast]:
                continue
            if machines[slow].architecture == machines[fast].architecture:
                truth = levels[fast] - levels[slow]
                kin = kinship(machines[slow], machines[fast])
                found[kin].append(truth - math.log(speeds[fast] / speeds[slow]))
    return found


def rows(folder: Path) -> Iterator[tuple[object, ...]]:
    with (folder / "cpu_speed.csv").open(newline="", encoding="utf-8") as lines:
        speeds = thread_speeds(csv.DictReader(lines))
    with (folder / "cpu_llm.csv").open(newline="", encoding="utf-8") as lines:
        figures = throughputs(csv.DictReader(lines))
    sold = {machine.family for machine in catalogue().values() if machine.provider == "aws"}
    for family in sorted(sold & speeds.keys()):
        speed, count = speeds[family]
        yield "thread_speed", family, f"{speed:.3f}", "", "", count, SOURCE
    exponents = [size_exponent(each) for each in by_workload(figures).values()]
    low, mid, high = min(exponents), median(exponents), max(exponents)
    yield "size_exponent", "", *(f"{e:.2f}" for e in (mid, low, high)), len(figures), SOURCE
    plain = {family: speed for family, (speed, _) in speeds.items()}
    for kin, logs in sorted(residuals(figures, plain).items()):
        low, mid, high = np.percentile(logs, INTERVAL)
        yield "residual", kin, *(f"{e:.2f}" for e in (mid, low, high)), len(logs), SOURCE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--facts", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--write", type=Path, default=TABLE, metavar="FILE")
    asked = parser.parse_args()
    with asked.write.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(rows(asked.facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
