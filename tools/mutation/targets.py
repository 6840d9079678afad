"""The modules to mutate, each with its tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLAIM_TESTS = (
    *("tests/service/test_claims.py", "tests/service/test_pulling.py"),
    *("tests/service/test_background_work.py", "tests/service/test_fairness.py"),
    "tests/web/test_background_page.py",
)
COSTING_TESTS = (
    *("tests/money/test_cost.py", "tests/money/test_cost_notes.py"),
    *("tests/money/test_budget.py", "tests/money/test_phases_and_projection.py"),
)
LEDGER_TESTS = ("tests/rules/test_labels.py", "tests/rules/test_ledger.py")

SUCCESSIVE_TESTS = (
    *("tests/money/test_successive.py", "tests/money/test_successive_keys.py"),
    *("tests/money/test_successive_words.py", "tests/money/test_causes.py"),
    *("tests/money/test_successive_parts.py", "tests/money/test_successive_limits.py"),
    "tests/money/test_successive_early.py",
)


@dataclass(frozen=True)
class Target:
    """A module of one or more files."""

    name: str
    files: tuple[str, ...]
    """Paths or patterns, from the root of the checkout."""
    tests: tuple[str, ...] = ()
    """Arguments for pytest, the fastest tests first. They need neither Django nor Redis."""
    service_tests: tuple[str, ...] = ()
    """The tests that do. They run only if the others didn't notice the change."""

    def sources(self) -> list[str]:
        """Return the paths of its files."""
        matches = (path for pattern in self.files for path in ROOT.glob(pattern))
        return sorted(str(path.relative_to(ROOT)) for path in matches)


TARGETS = (
    Target("ledger", ("rules/ledger.py",), LEDGER_TESTS),
    Target("labels", ("rules/labels.py",), LEDGER_TESTS),
    Target("costing", ("advisor/costing/*.py",), COSTING_TESTS, ("tests/money/test_months.py",)),
    Target(
        "attribution",
        ("advisor/comparison/attribution.py",),
        ("tests/money/test_attribution.py",),
    ),
    Target("successive", ("advisor/successive/*.py",), SUCCESSIVE_TESTS),
    Target(
        "scope",
        ("webapp/runs/scope.py",),
        service_tests=("tests/web/test_run_scope.py", "tests/web/test_access.py"),
    ),
    Target(
        "claims",
        (
            *("webapp/background/claims.py", "webapp/background/conditions.py"),
            *("webapp/background/pulling.py", "webapp/background/kinds.py"),
        ),
        service_tests=CLAIM_TESTS,
    ),
)
