"""Where a difference in cost came from: terms that add up exactly."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from advisor.attribution import CostFactors, attribute

RUN_1 = CostFactors(Decimal("6.15672"), Decimal("14.688"), 3, Decimal(503))
RUN_2 = CostFactors(Decimal("1.06675"), Decimal("3.825"), 2, Decimal(502))
NANO = Decimal("1e-9")


def terms(a: CostFactors, b: CostFactors) -> dict[str, Decimal]:
    found = attribute(a, b)
    assert found is not None
    return {term.name: term.usd for term in found}


def test_it_takes_the_published_saving_apart():
    found = terms(RUN_1, RUN_2)
    assert {name: str(round(usd, 3)) for name, usd in found.items()} == {
        "instance type": "-3.907",
        "node count": "-1.177",
        "duration": "-0.006",
    }
    assert sum(found.values()) == Decimal("-5.08997")


nano_usd = st.integers(1, 10**14).map(lambda n: Decimal(n).scaleb(-9))
seconds = st.integers(1, 10**13).map(lambda n: Decimal(n).scaleb(-6))
any_factors = st.builds(CostFactors, nano_usd, nano_usd, st.integers(1, 4096), seconds)


@st.composite
def priced_factors(draw):
    """The cost is the product, rounded, as it is for whole machines at one price."""
    factors = draw(any_factors)
    exact = factors.usd_per_hour * factors.node_count * factors.duration_seconds / 3600
    return replace(factors, cost_usd=max(exact.quantize(NANO), NANO))


@given(any_factors, any_factors)
def test_the_terms_sum_to_the_difference_in_whole_nano_usd(a, b):
    found = terms(a, b)
    assert sum(found.values()) == b.cost_usd - a.cost_usd
    assert all(usd == usd.quantize(NANO) for usd in found.values())


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
    found = terms(a, b)
    others = [abs(usd) for name, usd in found.items() if name not in ("node count", "other")]
    assert max(others) <= 2 * NANO


def test_what_the_bill_did_beyond_price_count_and_time_has_its_own_term():
    shared = replace(RUN_1, cost_usd=RUN_1.cost_usd / 2)
    assert terms(RUN_1, shared) == {
        "instance type": 0,
        "node count": 0,
        "duration": 0,
        "other": Decimal("-3.07836"),
    }


def test_a_ratio_to_nothing_is_not_attributed():
    for nothing in (
        replace(RUN_2, cost_usd=Decimal(0)),
        replace(RUN_2, node_count=0),
        replace(RUN_2, duration_seconds=Decimal(0)),
        replace(RUN_2, usd_per_hour=Decimal(0)),
    ):
        assert attribute(RUN_1, nothing) is None
        assert attribute(nothing, RUN_1) is None
