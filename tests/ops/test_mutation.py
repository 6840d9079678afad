"""The mutation command: its changes, and whether it reports unnoticed ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.running_service import CHECKOUT
from tools.mutation.__main__ import chosen_mutants, report
from tools.mutation.mutants import Mutant, mutants_of
from tools.mutation.targets import ROOT, TARGETS, Target
from tools.mutation.trial import KILLED, SURVIVED, TIMED_OUT, Outcome

BUDGET = "advisor/costing/budget.py"
TESTS = "tests/money/test_budget.py"
TWICE = f"""
import sys
from tools.mutation.__main__ import report
from tools.mutation.mutants import Mutant
from tools.mutation.targets import Target
from tools.mutation.trial import outcomes

number = int(sys.argv[1])
noticed = Target("noticed", ("{BUDGET}",), ("{TESTS}",))
unnoticed = Target("unnoticed", ("{BUDGET}",), ("{TESTS}", "-k", "in_the_order_in_which"))
mutants = [Mutant(target, "{BUDGET}", number) for target in (noticed, unnoticed)]
sys.exit(0 if report(outcomes(mutants, 1), 90.0) else 1)
"""


def of_the_threshold() -> Mutant:
    """Return the mutant that has `>` for `>=` in the check of a budget's threshold."""
    [found] = [
        mutant
        for mutant in mutants_of(Target("budget", (BUDGET,), (TESTS,)))
        if "self.spent_usd > self.threshold_usd" in mutant.code
    ]
    return found


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_each_module_has_code_and_tests(target: Target) -> None:
    assert target.sources()
    for pattern in target.files:
        assert list(ROOT.glob(pattern)), pattern
    for test in (*target.tests, *target.service_tests):
        if test.startswith("tests/"):
            assert (ROOT / test).is_file(), test


def test_constants_properties_and_arguments_are_changed_and_decorators_are_not() -> None:
    diffs = [mutant.diff() for mutant in mutants_of(Target("budget", (BUDGET,), (TESTS,)))]
    changed = "\n".join(line for diff in diffs for line in diff.splitlines() if "    +" in line)
    assert 'OK, FORECAST_OVER, OVER_THRESHOLD, OVER = "XXokXX"' in changed
    assert "return self.amount_usd / self.threshold_pct" in changed
    assert "@dataclass(frozen=False)" not in changed
    assert of_the_threshold().diff().splitlines()[0] == of_the_threshold().name


def test_a_module_or_a_mutant_is_chosen_by_its_name() -> None:
    scope = chosen_mutants(["scope"])
    assert {mutant.target.name for mutant in scope} == {"scope"}
    assert chosen_mutants([scope[3].name]) == [scope[3]]
    assert len(chosen_mutants(["scope", "webapp/background/kinds.py#0"])) == len(scope) + 1
    for unknown in ("nothing", "webapp/runs/scope.py#99999", "webapp/runs/scope.py"):
        with pytest.raises(ValueError, match=f"no such module or mutant: {unknown}"):
            chosen_mutants(["scope", unknown])


def test_a_module_fails_below_nine_of_ten(capsys: pytest.CaptureFixture[str]) -> None:
    mutant = of_the_threshold()

    def outcomes(*verdicts: str) -> list[Outcome]:
        return [Outcome(mutant, verdict, 1.5) for verdict in verdicts]

    assert report(outcomes(*[KILLED] * 8, TIMED_OUT, SURVIVED), 90)
    printed = capsys.readouterr().out
    assert mutant.diff() in printed
    assert printed.splitlines()[-1].split() == ["budget", "8", "1", "1", "90.0", "%", "15", "s"]
    assert not report(outcomes(*[KILLED] * 8, SURVIVED), 90)


def test_a_change_is_tried_in_a_copy_and_said_to_be_noticed_or_not() -> None:
    code = (ROOT / BUDGET).read_text(encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", TWICE, str(of_the_threshold().number)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert "-        if self.spent_usd >= self.threshold_usd:" in ended.stdout
    assert ended.stdout.count(of_the_threshold().name) == 1
    last = [line.split()[:5] for line in ended.stdout.splitlines()[-2:]]
    assert last == [["noticed", "1", "0", "0", "100.0"], ["unnoticed", "0", "0", "1", "0.0"]]
    assert (ROOT / BUDGET).read_text(encoding="utf-8") == code
