"""Fits the speed model's bundled table from public measurements.

    python -m tools.fit_speed --measurements FOLDER

The folder holds `measurements.csv` and `measurements_more.csv`. Only fitted figures are written.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from advisor.speed.table import PATH

from .calibration import calibrate
from .data import datasets, is_slice, read_cases
from .fit import fit

SOURCES = (
    "ddps-lab/profet (MIT), stanford-futuredata/gavel (MIT), ml-energy/zeus (Apache-2.0), "
    "sitar-lab/NeuSight (MIT), ryujaehun/pytorch-gpu-benchmark (MIT), mlcommons/training results "
    "v0.6 to v5.1 (Apache-2.0), DAWNBench, jcjohnson/cnn-benchmarks (MIT) and the fork of "
    "dmikushin, tensorflow/tensorflow benchmarks of 2017 (Apache-2.0), "
    "u39kun/deep-learning-benchmark, mli/transformers-benchmarks (Apache-2.0), szilard/GBM-perf "
    "(MIT), mosaicml/llm-foundry (Apache-2.0), FlagOpen/FlagPerf (Apache-2.0), "
    "SpareCores/sc-inspector-data (CC-BY-SA 4.0), boringlee24/socc22-miso (MIT)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measurements", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=PATH)
    arguments = parser.parse_args()
    cases = [case for case in read_cases(arguments.measurements) if not is_slice(case)]
    document = calibrate(cases, fit(cases))
    about = {
        "about": "Written by python -m tools.fit_speed. Natural logarithms; levels are standard "
        "deviations, effects are mean and standard deviation.",
        "sources": SOURCES,
        "fitted_on": {"sets": datasets(cases), "configurations": len(cases)},
    }
    text = json.dumps(about | document, indent=1, ensure_ascii=False)
    arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
