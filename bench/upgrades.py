"""Opens what each release left on a disk, and compares its answers.

    python -m bench.upgrades --check

Runs the tests of `tests/upgrade`, and the restoring of each release's backup: answers as the
release gave them, and uploads of its agents before, while and after migrations run.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from bench.figures import note

CHECKOUT = Path(__file__).resolve().parent.parent
RELEASES = CHECKOUT / "tests" / "upgrade" / "releases"
TESTS = (
    "tests/upgrade",
    "tests/backup/test_restore.py::test_an_archive_of_an_older_version_is_migrated",
)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--check", action="store_true")
    options.add_argument("--seed", type=int, help="nothing here depends on chance")
    asked = options.parse_args()
    command = [sys.executable, "-m", "pytest", "-q", "-n0", *TESTS]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    print(ended.stdout[-4000:])
    releases = sorted(path.name.removesuffix(".tar.xz") for path in RELEASES.glob("*.tar.xz"))
    passed = sum(map(int, re.findall(r"(\d+) passed", ended.stdout)))
    measured = f"{', '.join(releases)}: {passed} of {_all(ended.stdout)} checks passed"
    print(measured)
    is_kept = ended.returncode == 0 and passed > 0
    note("upgrades", measured, is_kept)
    return int(asked.check and not is_kept)


def _all(said: str) -> int:
    """Return how many tests ran or should have."""
    return sum(map(int, re.findall(r"(\d+) (?:passed|failed|error|skipped)", said)))


if __name__ == "__main__":
    sys.exit(main())
