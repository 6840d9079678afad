"""Measures how well the speed of cores is predicted, against multiplying cores by their clock rate.

    python -m bench.cpu_speed --facts FOLDER            prints the figures
    python -m bench.cpu_speed --facts FOLDER --check    fails where a promise is broken

The folder has `cpu_speed.csv` and `cpu_llm.csv` (SpareCores/sc-inspector-data, CC-BY-SA 4.0):
tokens per second of language models on the processors of EC2's types. Each type in turn is left out
and predicted by the constant of its family and the size exponent, as fitted to the others. Then
each family in turn is left out, and predicted from the speed of one of its threads: how often the
truth lies in the interval.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

import numpy as np

from advisor.pricing.catalogue import catalogue
from advisor.sizing.cpu import core_speed, kinship
from tools.cpu_speed import (
    Throughput,
    by_workload,
    family_levels,
    residuals,
    size_exponent,
    thread_speeds,
    throughputs,
)

PROMISED_ERROR = 0.28
PROMISED_COVERAGE = 0.70, 0.90


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--facts", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    figures = throughputs(_lines(asked.facts / "cpu_llm.csv"))
    plain, clocked = [], []
    print(f"{len({f.machine.name for f in figures})} types, left out one by one: median error")
    for name, workload in sorted(by_workload(figures).items()):
        errors, by_clock = _errors(workload), _clock_errors(workload)
        plain += errors
        clocked += by_clock
        print(f"  {name:36} {median(errors):6.1%}   vCPU x clock {median(by_clock):6.1%}")
    error, naive = median(plain), median(clocked)
    print(f"  {'all':36} {error:6.1%}   vCPU x clock {naive:6.1%}")
    coverage = _coverage(figures, asked.facts)
    print(f"80 % interval of families left out: {coverage:.0%} of the truth lies in it")
    newer = core_speed(catalogue()["m5.2xlarge"], catalogue()["m7i.2xlarge"])
    print(f"m5 -> m7i, same cores: {newer.mid:.2f}x, {newer.low:.2f} to {newer.high:.2f}")
    least, most = PROMISED_COVERAGE
    kept = error <= PROMISED_ERROR and least <= coverage <= most and newer.low > 1
    return 0 if kept or not asked.check else 1


def _errors(workload: Sequence[Throughput]) -> list[float]:
    """Return the error for each type, predicted from the other sizes of its family, if there are
    any.
    """
    errors = []
    for left_out in workload:
        others = [each for each in workload if each.machine.name != left_out.machine.name]
        family = [each for each in others if each.machine.family == left_out.machine.family]
        if family:
            exponent = size_exponent(others)
            level = family_levels(family, exponent)[left_out.machine.family]
            predicted = math.exp(level + exponent * math.log(left_out.machine.vcpus))
            errors.append(abs(predicted / left_out.per_second - 1))
    return errors


def _clock_errors(workload: Sequence[Throughput]) -> list[float]:
    """Return the same by vCPU x clock, in proportion to the median of the other types."""
    rates = [each.machine.vcpus * (each.machine.clock_ghz or 1.0) for each in workload]
    factors = [each.per_second / rate for each, rate in zip(workload, rates, strict=True)]
    errors = []
    for place, (each, rate) in enumerate(zip(workload, rates, strict=True)):
        level = median(factors[:place] + factors[place + 1 :])
        errors.append(abs(level * rate / each.per_second - 1))
    return errors


def _coverage(figures: Sequence[Throughput], facts: Path) -> float:
    """Return the mean over families, each left out of what the interval was taken from."""
    speeds = {f: speed for f, (speed, _) in thread_speeds(_lines(facts / "cpu_speed.csv")).items()}
    families = sorted({each.machine.family for each in figures} & speeds.keys())
    return fmean(share for family in families for share in _covered(figures, speeds, family))


def _covered(
    figures: Sequence[Throughput], speeds: dict[str, float], family: str
) -> Iterator[float]:
    rest = [each for each in figures if each.machine.family != family]
    known = residuals(rest, speeds)
    for workload in by_workload(figures).values():
        machines = {each.machine.family: each.machine for each in workload}
        if family not in machines:
            continue
        levels = family_levels(workload, size_exponent(workload))
        inside = []
        for other, machine in machines.items():
            kin = kinship(machines[family], machine)
            alike = machine.architecture == machines[family].architecture
            if other not in speeds or kin not in known or not alike:
                continue
            slow, fast = sorted((family, other), key=lambda name: speeds[name])
            log = levels[fast] - levels[slow] - math.log(speeds[fast] / speeds[slow])
            low, high = np.percentile(known[kin], (10, 90))
            inside.append(low <= log <= high)
        if inside:
            yield fmean(inside)


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


if __name__ == "__main__":
    sys.exit(main())
