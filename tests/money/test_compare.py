"""Two runs side by side: the sentence says what changed, and no saving that isn't one."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.comparison.compare import RunFacts, compare
from advisor.durations import display_seconds
from advisor.money import display_usd_per_unit

SLOW = RunFacts(
    number=1,
    job="digits",
    state="finished",
    instance_types=("c5.large",),
    node_count=1,
    usd_per_hour=Decimal("0.085"),
    duration_seconds=109.0,
    cost_usd=Decimal("0.002573611"),
    work={"epochs": 60.0},
    workload={"dataset": "digits"},
    configuration={"workers": 0},
    figures=SimpleNamespace(data_wait_share=0.61, cpu_busy_p95_pct=51.0),
    phase_seconds={"initialise": 4.0, "train": 105.0},
    quality={"accuracy": 0.97},
)
FAST = replace(
    SLOW,
    number=2,
    duration_seconds=41.0,
    cost_usd=Decimal("0.000968056"),
    configuration={"workers": 2},
    figures=SimpleNamespace(data_wait_share=0.04, cpu_busy_p95_pct=93.0),
    phase_seconds={"initialise": 4.0, "train": 37.0},
)
CLAIMS = (" less than ", " more than ")


def test_the_first_sentence_says_what_changed_and_by_how_much():
    assert compare(SLOW, FAST).sentence == (
        "Run #2 cost $0.0016 less than run #1 (−62.4 %): it took 41 s instead of 109 s for the "
        "same 60 epochs; data wait fell from 61 % to 4 % of step time."
    )
    assert compare(FAST, SLOW).sentence.startswith("Run #1 cost $0.0016 more than run #2 (+165.9 %")


def test_the_saving_is_signed_and_attributed_without_residual():
    comparison = compare(SLOW, FAST)
    assert comparison.saving_usd == SLOW.cost_usd - FAST.cost_usd
    assert sum(term.usd for term in comparison.attribution) == -comparison.saving_usd
    assert compare(FAST, SLOW).saving_usd == -comparison.saving_usd


def test_the_published_runs_name_their_machines():
    before = replace(
        SLOW, instance_types=("ml.p3.8xlarge",), node_count=3, usd_per_hour=Decimal("14.688"),
        duration_seconds=503.0, cost_usd=Decimal("6.15672"), work={"epochs": 25},
    )  # fmt: skip
    after = replace(
        before, number=2, instance_types=("ml.p3.2xlarge",), node_count=2,
        usd_per_hour=Decimal("3.825"), duration_seconds=502.0, cost_usd=Decimal("1.06675"),
    )  # fmt: skip
    assert compare(before, after).sentence == (
        "Run #2 cost $5.09 less than run #1 (−82.7 %): it took 502 s instead of 503 s for the "
        "same 25 epochs; it ran on 2 × ml.p3.2xlarge instead of 3 × ml.p3.8xlarge."
    )


def test_an_equal_cost_is_called_the_same():
    again = replace(SLOW, number=2)
    assert compare(SLOW, again).sentence == (
        "Run #2 cost the same as run #1, $0.0026: it took 109 s for the same 60 epochs."
    )


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(FAST, cost_usd=None), "run #2 has no price, so no saving is claimed"),
        (replace(FAST, state="failed"), "Run #2 failed, so the costs"),
        (replace(FAST, state="running"), "still running, so the costs so far"),
        (replace(FAST, workload={"dataset": "letters"}), "different workloads"),
        (replace(FAST, job="letters"), "different workloads"),
        (replace(FAST, work={"epochs": 30.0}), "different amounts, 30 and 60 epochs"),
        (
            replace(FAST, work={"epochs": 30.0}, workload={"dataset": "letters"}),
            "different workloads",
        ),
    ],
)
@pytest.mark.parametrize("is_swapped", [False, True])
def test_no_saving_is_claimed_where_work_differs_or_a_price_is_missing(other, words, is_swapped):
    comparison = compare(other, SLOW) if is_swapped else compare(SLOW, other)
    if not is_swapped:
        assert words in comparison.sentence
    assert comparison.saving_usd is None
    assert not any(claim in comparison.sentence for claim in CLAIMS)


def test_different_amounts_of_work_are_compared_per_unit_without_start_up():
    comparison = compare(SLOW, replace(FAST, work={"epochs": 30.0}))
    assert comparison.sentence == (
        "Per epoch and without start-up, run #2 cost $0.0000291 and run #1 $0.0000413 (−29.5 %); "
        "they did different amounts, 30 and 60 epochs, so no saving is claimed."
    )
    assert any("amount of work differs (60 and 30 epochs)" in w for w in comparison.warnings)


@pytest.mark.parametrize(
    ("a", "b", "unit"),
    [
        ({"samples": 10.0, "epochs": 1.0}, {"samples": 10.0, "epochs": 1.0}, "samples"),
        ({"samples": 10.0, "epochs": 1.0}, {"tokens": 5.0, "epochs": 1.0}, "epochs"),
        ({"steps": 5.0}, {"steps": 5.0, "samples": 3.0}, "steps"),
        ({}, {"samples": 3.0}, "run"),
        ({"samples": 0.0}, {"samples": 3.0}, "run"),
    ],
)
def test_the_unit_of_work_is_the_first_that_both_have(a, b, unit):
    comparison = compare(replace(SLOW, work=a), replace(FAST, work=b))
    assert comparison.per_work.unit == unit
    assert any("whole runs are compared" in w for w in comparison.warnings) == (unit == "run")


def test_steps_of_different_batches_are_not_the_same_work():
    a = replace(SLOW, work={"steps": 5.0}, configuration={"global_batch": 32})
    b = replace(FAST, work={"steps": 5.0}, configuration={"global_batch": 64})
    comparison = compare(a, b)
    assert comparison.per_work.unit == "run"
    assert any("may change results" in warning for warning in comparison.warnings)


def test_it_lists_only_the_settings_that_changed():
    comparison = compare(SLOW, replace(FAST, node_count=2))
    assert [(c.name, c.a, c.b) for c in comparison.configuration_changes] == [
        ("node_count", 1, 2),
        ("workers", 0, 2),
    ]


def test_the_table_says_up_or_down_and_whether_that_is_good():
    rows = {row.name: row for row in compare(SLOW, FAST).metrics}
    cost = rows["cost"]
    assert (cost.a, cost.b, cost.change, cost.tone) == ("$0.0026", "$0.0010", "−62.4 %", "better")
    wait = rows["data wait, share of step time"]
    assert (wait.change, wait.tone) == ("−57.0 points", "better")
    assert rows["CPU busy, p95"].tone == "neutral"
    assert rows["phase train"].b == "37 s"
    assert rows["accuracy"].change == "0.0 %"
    assert "GPU busy, p95" not in rows


def test_a_figure_that_one_run_lacks_is_a_dash_and_never_nothing():
    rows = {row.name: row for row in compare(SLOW, replace(FAST, cost_usd=None)).metrics}
    assert (rows["cost"].a, rows["cost"].b, rows["cost"].change) == ("$0.0026", "–", "")


def test_quality_that_is_not_recorded_is_said_and_one_run_each_is_too():
    assert any("One run each" in w for w in compare(SLOW, FAST).warnings)
    assert not any("metric in common" in w for w in compare(SLOW, FAST).warnings)
    without = compare(replace(SLOW, quality={}), FAST)
    assert any("runs have no metric in common" in w for w in without.warnings)


def test_the_markdown_keeps_a_setting_inside_its_cell():
    nasty = replace(FAST, configuration={"workers": "2 | <b>\n# x"})
    text = compare(SLOW, nasty).markdown()
    assert text.startswith("**Run #2 cost $0.0016 less than run #1")
    assert "| workers | 0 | 2 \\| \\<b\\> # x |" in text


money = st.none() | st.integers(0, 10**13).map(lambda n: Decimal(n).scaleb(-9))
facts = st.builds(
    RunFacts,
    number=st.integers(1, 9),
    job=st.sampled_from("ab"),
    state=st.sampled_from(["finished", "finished", "failed", "running", "lost", "stopped"]),
    instance_types=st.sampled_from([(), ("m5.large",), ("m5.large", "c5.large")]),
    node_count=st.integers(0, 3),
    usd_per_hour=money,
    duration_seconds=st.none() | st.floats(0, 1e7),
    cost_usd=money,
    work=st.dictionaries(st.sampled_from(["samples", "epochs"]), st.floats(0, 1e12)),
    workload=st.dictionaries(st.sampled_from("xy"), st.sampled_from("12")),
    configuration=st.dictionaries(st.sampled_from("xy"), st.integers(0, 2)),
    figures=st.builds(SimpleNamespace, data_wait_share=st.none() | st.floats(0, 1)),
    phase_seconds=st.dictionaries(st.sampled_from(["initialise", "train"]), st.floats(0, 1e7)),
    quality=st.none() | st.dictionaries(st.sampled_from("xy"), st.floats(-1, 1)),
    incomplete_because=st.sampled_from([(), (), ("node-2 hasn't reported its end",)]),
)


@given(facts, facts)
def test_whatever_the_runs_are_it_compares_them_and_claims_no_more_than_is_so(a, b):
    comparison = compare(a, b)
    claims = any(claim in comparison.sentence for claim in CLAIMS)
    claims = claims and "no saving is claimed" not in comparison.sentence
    assert comparison.sentence[0].isupper()
    assert comparison.sentence.endswith(".")
    is_known = a.cost_usd is not None and b.cost_usd is not None
    is_whole = not a.incomplete_because and not b.incomplete_because
    if not (is_known and is_whole and a.state == b.state == "finished"):
        assert comparison.saving_usd is None
        assert comparison.cost_change_pct is None
    assert (comparison.cost_change_pct is None) is bool(comparison.incomparable_because)
    if comparison.saving_usd is None:
        assert not claims
    if comparison.attribution is not None:
        assert sum(term.usd for term in comparison.attribution) == b.cost_usd - a.cost_usd
    assert comparison.markdown()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (0.0124, "12.4 ms"),
        (4.16, "4.16 s"),
        (9.996, "10 s"),
        (109, "109 s"),
        (599.6, "10.0 min"),
        (5996, "99.9 min"),
        (7197, "2.00 h"),
        (40_000, "11.1 h"),
    ],
)
def test_it_shows_a_duration_in_one_unit(seconds, shown):
    assert display_seconds(seconds) == shown


@pytest.mark.parametrize(
    ("usd", "shown"),
    [("0", "$0.00"), ("0.00004289", "$0.0000429"), ("0.0999999", "$0.1000"), ("1.5", "$1.50")],
)
def test_a_price_of_a_unit_keeps_three_digits_however_small(usd, shown):
    assert display_usd_per_unit(Decimal(usd)) == shown


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"accuracy": 0.97}, {"accuracy": 0.95}, "accuracy was 0.95 instead of 0.97"),
        ({"val_loss": 0.3}, {"val_loss": 0.33}, "val_loss was 0.33 instead of 0.3"),
        ({"accuracy": 0.97}, {"accuracy": 0.965}, ""),
        ({"val_loss": 0.3}, {"val_loss": 0.29}, ""),
        ({"accuracy": 0.97}, {"val_loss": 0.9}, ""),
    ],
)
def test_worse_results_are_no_saving(before, after, words):
    comparison = compare(replace(SLOW, quality=before), replace(FAST, quality=after))
    if words:
        assert comparison.sentence.endswith(f"({words}), so no saving is claimed.")
        assert comparison.saving_usd is None
    else:
        assert "worse" not in comparison.sentence
        assert comparison.saving_usd == SLOW.cost_usd - FAST.cost_usd


def test_it_says_that_the_two_were_counted_at_different_prices():
    warnings = compare(SLOW, replace(FAST, basis="your rate")).warnings
    bases = "Run #1 is priced at list price and run #2 at your rate"
    assert any(bases in warning for warning in warnings)
