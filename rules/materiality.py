"""The materiality floor: waste that is too small to matter isn't reported, whatever the rule.

Every rule has the two parameters below, unless it declares `reports_risk`. They can be set for all
rules at once (`materiality.least_waste_pct`) or for one (`step_outlier.least_waste_pct`).
"""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, Context, Decimal

from rules.category import OVERVIEW
from rules.parameter import Parameter
from rules.rule import Numbers, Rule, Values, Verdict

SHARED = "materiality"
"""The name in place of a rule's id, for the parameter of all rules."""
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
    """Return the parameter with this name. Raises KeyError."""
    return {each.name: each for each in PARAMETERS}[name]


def has_floor(rule: Rule) -> bool:
    """Return whether it reports waste: no risk, and no overview, which never fires."""
    return not rule.reports_risk and rule.category != OVERVIEW


def with_floor(rule: Rule) -> Rule:
    """Return the rule with the parameters of the floor, if it has one."""
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
    """Return the verdict; passed instead of fired if its waste is below the floor.

    A finding that claims nothing stays: unknown waste isn't small. So does one of a run without a
    price, if only the amount is too small.

    Args:
        run_usd: the cost of the run; None: not known.
    """
    run_seconds = numbers.get("run_seconds") or 0.0
    if verdict.state != "fired" or verdict.claimed_seconds_high <= 0 or run_seconds <= 0:
        return verdict
    share = verdict.claimed_seconds_high / run_seconds
    least_pct, least_usd = (values.get(each.name, 0.0) for each in PARAMETERS)
    if round(100 * share, 6) < least_pct:
        waste = f"{_just_above(100 * share, least_pct)} % of the run's cost"
        return _passed(verdict, waste, f"{least_pct:.12g} %")
    if run_usd is not None and share * run_usd < least_usd:
        waste = f"${_just_above(share * run_usd, least_usd)}"
        return _passed(verdict, waste, f"${least_usd:.12g}")
    return verdict


def _just_above(amount: float, floor: float) -> str:
    """Return the amount, rounded up to as many digits as it takes to be less than the floor."""
    exact, least = Decimal(repr(amount)), Decimal(f"{floor:.12g}")
    roundings = (Context(digits, ROUND_CEILING).plus(exact) for digits in range(2, 18))
    return f"{next((each for each in roundings if each < least), exact).normalize():f}"


def _passed(verdict: Verdict, waste: str, floor: str) -> Verdict:
    return Verdict(
        "passed",
        f"{verdict.summary} The waste is at most {waste}, below the materiality floor of {floor}.",
    )
