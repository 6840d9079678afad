"""Parameters: by our names in seconds, by SageMaker's in its units, and never out of bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.overrides import parse_overrides
from rules.parameter import Parameter
from rules.registry import all_rules

MODE = Parameter("mode", "choice", 0, 0, 2, "Which", "ours", choices=("any", "train", "eval"))
COUNT = Parameter("count", "steps", 3, 1, 10, "How many", "ours", whole=True)
LOW_GPU = "low_gpu_utilization"


def test_it_reads_both_spellings() -> None:
    ours = parse_overrides([f"{LOW_GPU}.threshold_p95=60", f"{LOW_GPU}.window_seconds = 100"])
    assert ours == {LOW_GPU: {"threshold_p95": 60, "window_seconds": 100}}
    theirs = parse_overrides(["LowGPUUtilization_threshold_p95=60", "lowgpuutilization_WINDOW=200"])
    assert theirs == {LOW_GPU: {"threshold_p95": 60, "window_seconds": 100}}


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        ("LowGPUUtilization_threshold_p95", "has no value"),
        ("Imaginary_threshold=1", "no such rule"),
        ("imaginary.threshold=1", "no such rule"),
        ("LowGPUUtilization_patients=1", "no parameter 'patients'; it has threshold_p95"),
        ("LowGPUUtilization_threshold_p95=high", r"is not a number \(%\)"),
        ("LowGPUUtilization_threshold_p95=140", "threshold_p95 = 140.0 is outside 0..100"),
        ("LowGPUUtilization_threshold_p95=nan", "is outside"),
    ],
)
def test_it_names_what_is_wrong_and_what_is_allowed(assignment: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_overrides([assignment])


def test_choices_and_whole_numbers_are_kept_to() -> None:
    assert MODE.parse("Train") == 1
    with pytest.raises(ValueError, match="not one of any, train, eval"):
        MODE.parse("test")
    with pytest.raises(ValueError, match="not a whole number"):
        COUNT.check(2.5)


def sagemaker_names() -> list[tuple[str, str, str]]:
    return [
        (rule.id, p.name, f"{rule.sagemaker_name}_{p.sagemaker_name}")
        for rule in all_rules().values()
        for p in rule.parameters
        if p.sagemaker_name
    ]


@given(data=st.data())
def test_every_parameter_that_sagemaker_has_answers_to_its_name(data: st.DataObject) -> None:
    rule_id, name, spelling = data.draw(st.sampled_from(sagemaker_names()))
    parameter = next(p for p in all_rules()[rule_id].parameters if p.name == name)
    if parameter.choices:
        value = float(data.draw(st.integers(0, len(parameter.choices) - 1)))
        text = parameter.choices[int(value)]
    else:
        share = data.draw(st.integers(1, 99)) / 100
        value = parameter.low + share * (parameter.high - parameter.low)
        text = repr(value / parameter.sagemaker_factor)
    overrides = parse_overrides([f"{spelling}={text}"])
    assert overrides[rule_id][name] == pytest.approx(value)
