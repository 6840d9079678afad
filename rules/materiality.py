"""The materiality floor: waste that is too small to matter isn't reported, whatever the rule.

Every rule has the two parameters below, unless it declares `reports_risk`. They can be set for all
rules at once (`materiality.least_waste_pct`) or for one (`step_outlier.least_waste_pct`).
"""

from __future__ import annotations

from dataclasses import replace

from rules.category import OVERVIEW
from rules.parameter import Parameter
from rules.rule import Numbers, Rule, Values, Verdict

SHARED = "materiality"
"""In place of a rule's id: the parameter of all rules."""
PARAMETERS = (
    Parameter(
        "least_waste_pct",
        "%",
        1,
        0,
        100,
        "Not reported if the waste is below this share of the run's cost",
        "ours",
        save=0.5,
        safe=2,
    ),
    Parameter(
        "least_waste_usd", "USD", 0, 0, 1e9, "Or below this amount, if the price is known", "ours"
    ),
)
_DOCUMENTATION = """\
`least_waste_pct` and `least_waste_usd`, which all rules about waste share: if the upper end of the
waste is below them, the rule passes and says so."""


def parameter(name: str) -> Parameter:
    """Raises KeyError."""
    return {each.name: each for each in PARAMETERS}[name]


def has_floor(rule: Rule) -> bool:
    """It reports waste: no risk, and no overview, which never fires."""
    return not rule.reports_risk and rule.category != OVERVIEW


def with_floor(rule: Rule) -> Rule:
    """The rule with the parameters of the floor, if it has one."""
    if not has_floor(rule):
        return rule
    documentation = rule.documentation.replace(
        "\n\n## Sources", f"\n\n{_DOCUMENTATION}\n\n## Sources", 1
    )
    parameters = (*rule.parameters, *PARAMETERS)
    return replace(rule, parameters=parameters, documentation=documentation)


def held_to_floor(
    verdict: Verdict, numbers: Numbers, values: Values, run_usd: float | None
) -> Verdict:
    """The verdict; passed instead of fired if its waste is below the floor.

    A finding without an estimate of its waste (0 s) stays: unknown waste isn't small. So does one
    of a run without a price, if only the amount is too small.

    Args:
        run_usd: the cost of the run; None: not known.
    """
    run_seconds = numbers.known("run_seconds") or 0.0
    if verdict.state != "fired" or verdict.waste_seconds_high <= 0 or run_seconds <= 0:
        return verdict
    share = verdict.waste_seconds_high / run_seconds
    least_pct, least_usd = (values.get(each.name, 0.0) for each in PARAMETERS)
    if round(100 * share, 6) < least_pct:
        return _passed(verdict, f"{100 * share:.2g} % of the run's cost", f"{least_pct:.3g} %")
    if run_usd is not None and share * run_usd < least_usd:
        return _passed(verdict, f"${share * run_usd:.2g}", f"${least_usd:.12g}")
    return verdict


def _passed(verdict: Verdict, waste: str, floor: str) -> Verdict:
    return Verdict(
        "passed",
        f"{verdict.summary} The waste is at most {waste}, below the materiality floor of {floor}.",
    )
