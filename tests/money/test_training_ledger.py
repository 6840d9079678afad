"""The ledger of a training: exact sums, whatever the order and the division into attempts."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.training import Attempt, LabelCost, training_ledger
from advisor.costing.training_metrics import curves, usd_until
from rules.ledger_labels import LABELS

NANO = Decimal("1e-9")
PARTS = st.builds(
    LabelCost,
    st.sampled_from(LABELS),
    st.integers(1, 10**12),
    st.integers(0, 10**15).map(lambda nano: nano * NANO),
)


@given(parts=st.lists(PARTS, max_size=30), seed=st.integers(), cuts=st.integers(1, 5))
def test_any_division_and_order_has_the_same_ledger(
    parts: list[LabelCost], seed: int, cuts: int
) -> None:
    shuffled = random.Random(seed).sample(parts, len(parts))
    divided = [Attempt((), tuple(shuffled[n::cuts])) for n in range(cuts)]
    whole = training_ledger([Attempt((), tuple(parts))])
    assert training_ledger(divided) == whole
    assert whole.microseconds == sum(part.microseconds for part in parts)
    assert whole.usd == sum((part.usd for part in parts if part.usd is not None), Decimal(0))


def minutes(**of_labels: float) -> tuple[LabelCost, ...]:
    """Return minutes that cost a dollar each."""
    return tuple(LabelCost(k, round(v * 60e6), Decimal(str(v))) for k, v in of_labels.items())


def test_the_two_figures() -> None:
    found = training_ledger([Attempt((), minutes(effective=50, lost=20, data_stall=20, gap=10))])
    assert found.goodput == Fraction(70, 90), "what nobody knows is neither"
    assert found.effective_share == Fraction(1, 2)


def test_slow_first_steps_and_compilation_are_no_goodput() -> None:
    found = training_ledger([Attempt((), minutes(effective=90, first_steps=6, compile=4))])
    assert found.goodput == Fraction(9, 10)


def test_waiting_for_data_is_no_loss_of_goodput() -> None:
    found = training_ledger([Attempt((), minutes(effective=10, data_stall=89, initialise=1))])
    assert (found.goodput, found.effective_share) == (Fraction(99, 100), Fraction(1, 10))


def test_a_price_that_is_missing_is_no_zero() -> None:
    found = training_ledger([Attempt((), (*minutes(effective=1), LabelCost("lost", 1, None)))])
    assert found.usd is None
    assert found.effective_share is None
    assert found.goodput is not None


def test_the_time_between_attempts_in_which_nothing_was_held() -> None:
    attempts = [Attempt(((300, 400), (350, 500)), ()), Attempt(((0, 100), (90, 120)), ())]
    waits = training_ledger(attempts).waits
    assert [(wait.began_us, wait.ended_us) for wait in waits] == [(120, 300)]
    assert training_ledger([]).goodput is None


def loss(name: str) -> bool | None:
    return True if name == "loss" else None


def held(*spans: tuple[int, int], usd: str | None = "1") -> Attempt:
    """Return an attempt with these spans in seconds; a dollar for all of them together."""
    price = None if usd is None else Decimal(usd)
    return Attempt(
        tuple((a * 10**6, b * 10**6) for a, b in spans), (LabelCost("effective", 1, price),)
    )


def test_what_it_cost_to_reach_a_value() -> None:
    attempts = [held((300, 400), usd="4"), held((0, 100), (0, 100))]
    told = {"loss": [(350 * 10**6, 0.4), (50 * 10**6, 0.5), (380 * 10**6, 0.45)], "other": []}
    (curve,) = curves(attempts, told, loss)
    assert [(p.value, p.seconds, p.usd) for p in curve.points] == [
        (0.5, 50, Decimal("0.5")),
        (0.4, 350, Decimal(3)),
    ]
    assert curve.first_reaching(0.45) == curve.best
    assert curve.first_reaching(0.1) is None
    assert usd_until([held((0, 100), usd=None)], 10**6) is None, "no price is not zero"
    assert curves([], told, loss) == []


@given(
    cuts=st.lists(st.integers(1, 99), max_size=4, unique=True),
    times=st.lists(st.integers(0, 120), min_size=1, max_size=6),
    seed=st.integers(),
)
def test_any_division_reaches_a_value_at_the_same_cost(
    cuts: list[int], times: list[int], seed: int
) -> None:
    """A dollar a second."""
    edges = [0, *sorted(cuts), 100]
    spans = list(pairwise(edges))
    divided = [held(span, usd=str(span[1] - span[0])) for span in spans]
    random.Random(seed).shuffle(divided)
    for at in times:
        assert usd_until(divided, at * 10**6) == min(at, 100)
