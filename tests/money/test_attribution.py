"""The causes of a difference in cost, as terms that add up exactly."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.comparison.attribution import CostFactors, attribute
from advisor.comparison.wording import describe_causes

RUN_1 = CostFactors(Decimal("6.15672"), Decimal("14.688"), 3, Decimal(503))
RUN_2 = CostFactors(Decimal("1.06675"), Decimal("3.825"), 2, Decimal(502))
NANO = Decimal("1e-9")


def terms(a: CostFactors, b: CostFactors) -> dict[str, Decimal]:
    attribution = attribute(a, b)
    assert attribution is not None
    return {term.name: term.usd for term in attribution}


def test_it_takes_the_published_saving_apart():
    attribution = terms(RUN_1, RUN_2)
    assert {name: str(round(usd, 3)) for name, usd in attribution.items()} == {
        "instance type": "-3.907",
        "node count": "-1.177",
        "duration": "-0.006",
    }
    assert sum(attribution.values()) == Decimal("-5.08997")


nano_usd = st.integers(1, 10**14).map(lambda n: Decimal(n).scaleb(-9))
seconds = st.integers(1, 10**13).map(lambda n: Decimal(n).scaleb(-6))
any_factors = st.builds(CostFactors, nano_usd, nano_usd, st.integers(1, 4096), seconds)


@st.composite
def priced_factors(draw):
    """Draw factors of which the cost is the product, rounded, as it is for whole machines at one
    price.
    """
    factors = draw(any_factors)
    exact = factors.usd_per_hour * factors.node_count * factors.duration_seconds / 3600
    return replace(factors, cost_usd=max(exact.quantize(NANO), NANO))


@given(any_factors, any_factors)
def test_the_terms_sum_to_the_difference_in_whole_nano_usd(a, b):
    attribution = terms(a, b)
    assert sum(attribution.values()) == b.cost_usd - a.cost_usd
    assert all(usd == usd.quantize(NANO) for usd in attribution.values())


@given(any_factors, any_factors)
def test_going_back_undoes_each_term(a, b):
    there, back = terms(a, b), terms(b, a)
    assert there.keys() == back.keys()
    for name, usd in there.items():
        assert abs(usd + back[name]) <= 4 * NANO


@given(any_factors)
def test_nothing_changed_means_that_every_term_is_nothing(a):
    assert set(terms(a, a).values()) == {Decimal(0)}


@given(priced_factors(), st.integers(1, 64))
def test_more_nodes_alone_are_all_of_the_difference(a, count):
    b = replace(a, node_count=count, cost_usd=a.cost_usd / a.node_count * count)
    b = replace(b, cost_usd=max(b.cost_usd.quantize(NANO), NANO))
    attribution = terms(a, b)
    others = [abs(usd) for name, usd in attribution.items() if name not in ("node count", "other")]
    assert max(others) <= 2 * NANO


@given(priced_factors(), nano_usd, seconds)
def test_what_rounding_leaves_over_goes_to_no_factor_that_stayed_the_same(a, rate, length):
    exact = rate * a.node_count * length / 3600
    b = CostFactors(max(exact.quantize(NANO), NANO), rate, a.node_count, length)
    assert terms(a, b)["node count"] == 0


def test_what_the_bill_did_beyond_price_count_and_time_has_its_own_term():
    shared = replace(RUN_1, cost_usd=RUN_1.cost_usd / 2)
    assert terms(RUN_1, shared) == {
        "instance type": 0,
        "node count": 0,
        "duration": 0,
        "other": Decimal("-3.07836"),
    }


@pytest.mark.parametrize(
    ("before", "after", "has_other"),
    [
        ("100", "100.0001", False),
        ("100.0001", "100", False),
        ("100", "100.000101", True),
        ("100", "99.99989", True),
        ("0.0001", "0.000100001", False),
        ("0.000100001", "0.0001", False),
        ("0.0001", "0.000100002", True),
        ("0.0001", "0.000099998", True),
    ],
)
def test_a_millionth_or_a_nano_dollar_more_is_rounding_and_no_other_cause(
    before: str, after: str, has_other: bool
):
    """The same machines for the same time."""
    a = CostFactors(Decimal(before), Decimal(before), 1, Decimal(3600))
    b = replace(a, cost_usd=Decimal(after))
    assert ("other" in terms(a, b)) == has_other
    assert sum(terms(a, b).values()) == b.cost_usd - a.cost_usd


def test_shares_that_differ_are_another_cause_though_their_product_is_1():
    half, double = (
        replace(RUN_1, cost_usd=RUN_1.cost_usd * factor) for factor in (Decimal("0.5"), 2)
    )
    assert terms(half, double)["other"] == double.cost_usd - half.cost_usd


def test_what_duration_changed_is_split_by_phases_which_may_be_absent():
    a = replace(RUN_1, phase_seconds={"initialise": Decimal(100), "train": Decimal(400)})
    b = replace(RUN_2, phase_seconds={"train": Decimal(300), "evaluate": Decimal(200)})
    attribution = attribute(a, b)
    assert attribution is not None
    duration = next(term for term in attribution if term.name == "duration")
    assert terms(a, b) == terms(RUN_1, RUN_2)
    parts = {part.name: part.usd for part in duration.parts}
    assert parts.keys() == {"initialise", "train", "evaluate", "other time"}
    assert sum(parts.values()) == duration.usd
    assert parts["initialise"] == pytest.approx(parts["train"])
    assert parts["evaluate"] == pytest.approx(-2 * parts["train"])


phases = st.dictionaries(
    st.sampled_from("abc"), st.integers(0, 10**9).map(lambda n: Decimal(n).scaleb(-6)), max_size=3
)


@given(any_factors, any_factors, phases, phases)
def test_the_phases_sum_to_what_duration_changed(a, b, before, after):
    attribution = attribute(replace(a, phase_seconds=before), replace(b, phase_seconds=after))
    assert attribution is not None
    assert sum(term.usd for term in attribution) == b.cost_usd - a.cost_usd
    for term in attribution:
        if term.parts:
            assert sum(part.usd for part in term.parts) == term.usd


def test_a_phase_that_one_run_has_costs_its_seconds_there():
    """A second is a tenth of a cent at $3.60 an hour."""
    rate, nodes = Decimal("3.6"), 1
    a = CostFactors(Decimal("0.4"), rate, nodes, Decimal(400), {"train": Decimal(400)})
    phases = {"train": Decimal(370), "evaluate": Decimal(30)}
    b = CostFactors(Decimal("0.4"), rate, nodes, Decimal(400), phases)
    parts = {"train": Decimal("-0.03"), "evaluate": Decimal("0.03")}
    for before, after, sign in ((a, b, 1), (b, a, -1)):
        attribution = attribute(before, after)
        assert attribution is not None
        [duration] = [term for term in attribution if term.parts]
        assert duration.name == "duration"
        assert {part.name: sign * part.usd for part in duration.parts} == parts
    longer = replace(b, duration_seconds=Decimal(410), cost_usd=Decimal("0.41"))
    attribution = attribute(a, replace(longer, phase_seconds={**phases, "save": Decimal(10)}))
    assert attribution is not None
    assert {p.name: p.usd for p in attribution[2].parts} == {**parts, "save": Decimal("0.01")}


def test_phases_that_one_run_lacks_split_nothing():
    phased = replace(RUN_1, phase_seconds={"train": Decimal(400)})
    free = replace(phased, cost_usd=Decimal(0), usd_per_hour=Decimal(0))
    for a, b in ((phased, RUN_2), (RUN_2, phased), (RUN_1, RUN_2), (phased, free), (free, phased)):
        attribution = attribute(a, b)
        assert attribution is not None
        assert [term.parts for term in attribution] == [()] * len(attribution)


def test_equal_durations_still_tell_which_phase_took_from_which():
    a = replace(RUN_1, phase_seconds={"initialise": Decimal(103), "train": Decimal(400)})
    b = replace(RUN_1, phase_seconds={"initialise": Decimal(3), "train": Decimal(500)})
    attribution = attribute(a, b)
    assert attribution is not None
    duration = next(term for term in attribution if term.name == "duration")
    assert [(part.name, round(part.usd, 3)) for part in duration.parts] == [
        ("initialise", Decimal("-1.224")),
        ("train", Decimal("1.224")),
    ]


def test_a_machine_that_costs_nothing_accounts_for_the_whole_difference():
    free = CostFactors(Decimal(0), Decimal(0), 2, Decimal(900))
    assert terms(RUN_1, free) == {
        "instance type": -RUN_1.cost_usd, "node count": 0, "duration": 0,
    }  # fmt: skip
    assert terms(free, RUN_1)["instance type"] == RUN_1.cost_usd
    assert set(terms(free, free).values()) == {Decimal(0)}


@pytest.mark.parametrize(
    ("zeros", "told"),
    [
        ({"usd_per_hour"}, {"instance type": "-6.15672"}),
        ({"node_count"}, {"node count": "-6.15672"}),
        ({"duration_seconds"}, {"duration": "-6.15672"}),
        ({"usd_per_hour", "node_count"}, {"instance type": "-3.07836", "node count": "-3.07836"}),
        (
            {"usd_per_hour", "node_count", "duration_seconds"},
            {"instance type": "-2.05224", "node count": "-2.05224", "duration": "-2.05224"},
        ),
    ],
)
def test_factors_that_became_0_share_the_whole_difference(zeros, told):
    """The other factors have none of it, 1 node among them."""
    one = replace(RUN_1, node_count=1)
    gone = replace(one, cost_usd=Decimal(0), **dict.fromkeys(zeros, Decimal(0)))
    expected = {"instance type": Decimal(0), "node count": Decimal(0), "duration": Decimal(0)}
    expected |= {name: Decimal(usd) for name, usd in told.items()}
    assert terms(one, gone) == expected
    assert terms(gone, one) == {name: -usd for name, usd in expected.items()}


@given(any_factors, st.sets(st.sampled_from(["usd_per_hour", "node_count", "duration_seconds"])))
def test_zero_factors_leave_no_rest_either(a, zeros):
    b = replace(
        a, **dict.fromkeys(zeros, Decimal(0)), **({"cost_usd": Decimal(0)} if zeros else {})
    )
    assert sum(terms(a, b).values()) == b.cost_usd - a.cost_usd


def test_figures_that_dont_belong_together_are_not_attributed():
    for odd in (
        replace(RUN_2, cost_usd=Decimal(0)),
        replace(RUN_2, node_count=0),
        replace(RUN_2, duration_seconds=Decimal(0)),
        replace(RUN_2, usd_per_hour=Decimal(-1)),
    ):
        assert attribute(RUN_1, odd) is None
        assert attribute(odd, RUN_1) is None


def test_it_says_in_words_what_made_the_difference():
    assert describe_causes(attribute(RUN_1, RUN_2)) == (
        "−$5.09 in total: −$3.91 instance type, −$1.18 node count, −$0.0058 duration."
    )
    assert describe_causes(None) == describe_causes(attribute(RUN_1, RUN_1)) == ""


def on_own_gpus(
    usd_per_hour: str, kwh_usd: str, seconds: int, phases: dict[str, int]
) -> CostFactors:
    """Return a run on one own machine whose electricity costs `kwh_usd` in all."""
    machine = Decimal(usd_per_hour) * seconds / 3600
    return CostFactors(
        machine.quantize(NANO) + Decimal(kwh_usd),
        Decimal(usd_per_hour),
        1,
        Decimal(seconds),
        {name: Decimal(s) for name, s in phases.items()},
        electricity_usd=Decimal(kwh_usd),
    )


@pytest.mark.parametrize("usd_per_hour", ["0", "2"])
def test_electricity_is_divided_like_the_machines_by_time_and_by_its_own_change(usd_per_hour):
    a = on_own_gpus(usd_per_hour, "0.30", 3600, {"train": 3000, "evaluate": 600})
    b = on_own_gpus(usd_per_hour, "0.30", 7200, {"train": 6000, "evaluate": 1200})
    attribution = attribute(a, b)
    assert attribution is not None
    by_name = {term.name: term for term in attribution}
    assert sum(term.usd for term in attribution) == b.cost_usd - a.cost_usd
    # The GPUs took as much energy in twice the time: half the power.
    half = (Decimal("0.30") * Decimal(2).ln()).quantize(NANO)
    assert by_name["electricity"].usd == -half
    assert by_name["duration"].usd == half + Decimal(usd_per_hour)
    assert by_name["instance type"].usd == 0
    assert sum(part.usd for part in by_name["duration"].parts) == by_name["duration"].usd
    assert {part.name for part in by_name["duration"].parts} == {"train", "evaluate"}


def test_electricity_that_only_one_run_had_is_a_term_of_its_own():
    a, b = (on_own_gpus("0", usd, 3600, {}) for usd in ("0", "0.25"))
    assert terms(a, b)["electricity"] == Decimal("0.25")
    assert terms(b, a)["electricity"] == Decimal("-0.25")


def test_the_rounding_of_days_is_no_cost_of_a_machine_that_costs_nothing():
    run = on_own_gpus("0", "0.25", 3600, {})
    for cost in (Decimal("0.250000001"), Decimal("0.249999999")):
        assert sum(terms(run, replace(run, cost_usd=cost)).values()) == cost - run.cost_usd
    assert attribute(run, replace(run, cost_usd=Decimal("0.26"))) is None


@given(any_factors, any_factors, st.fractions(0, 1), st.fractions(0, 1))
def test_with_electricity_the_terms_sum_to_the_difference(a, b, first, second):
    a, b = (
        replace(run, electricity_usd=(run.cost_usd * Decimal(float(share))).quantize(NANO))
        for run, share in ((a, first), (b, second))
    )
    found = attribute(a, b)
    if found is not None:
        assert sum(term.usd for term in found) == b.cost_usd - a.cost_usd
    there, back = found, attribute(b, a)
    assert (there is None) is (back is None)
