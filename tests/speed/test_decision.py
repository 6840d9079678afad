"""Stay, measure first, or switch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.speed.decision import PROBE, STAY, SWITCH, Cost, decide
from advisor.speed.measurement import Target
from advisor.speed.prediction import HISTORY, MEASURED, PRIOR, SAME, Prediction, Speed

speeds = st.builds(
    Speed,
    target=st.just(Target("T4")),
    rung=st.sampled_from([MEASURED, SAME, HISTORY, PRIOR]),
    log_median=st.floats(-3, 3),
    log_sd=st.floats(0.01, 1),
)
offers = st.lists(st.tuples(speeds, st.floats(0.01, 50)), min_size=1, max_size=5)


def _prediction(*known: Speed) -> Prediction:
    return Prediction(known, np.diag([speed.log_sd**2 for speed in known]))


def _speed(rung: str, ratio: float, sd: float = 0.03) -> Speed:
    return Speed(Target("T4"), rung, float(np.log(ratio)), sd)


@given(offers, st.integers(0, 3))
def test_no_switch_from_public_measurements_alone_nor_to_what_costs_more(offered, rounds):
    prediction = _prediction(*(speed for speed, _ in offered))
    advice = decide(prediction, [Cost(price) for _, price in offered], rounds=rounds)
    if advice.kind == SWITCH:
        speed, price = offered[advice.targets[0]]
        assert speed.rung != PRIOR
        assert price / speed.low() < 1
        assert 1 - price / speed.median >= 0.05
        assert speed.low() * 1.1 >= 1
    assert advice.kind != PROBE or rounds < 2
    assert len(advice.targets) <= (2 if advice.kind == PROBE else 1)


@given(st.lists(speeds, min_size=1, max_size=5))
def test_it_stays_where_nothing_can_pay_or_no_price_is_known(known):
    prediction = _prediction(*known)
    assert decide(prediction, [Cost(1e6)] * len(known)).kind == STAY
    assert decide(prediction, [Cost(None)] * len(known)).kind == STAY


@given(offers)
def test_no_probe_costs_more_than_it_is_expected_to_bring(offered):
    prediction = _prediction(*(speed for speed, _ in offered))
    free = decide(prediction, [Cost(price, probe=0) for _, price in offered])
    dear = [Cost(price, probe=max(free.saving, 0) + 0.01) for _, price in offered]
    assert decide(prediction, dear).kind != PROBE


@pytest.mark.parametrize(
    ("speed", "price", "kind"),
    [
        (_speed(MEASURED, 1.0), 0.8, SWITCH),
        (_speed(MEASURED, 1.0), 0.96, STAY),
        (_speed(MEASURED, 0.8), 0.1, STAY),
        (_speed(MEASURED, 1.0, 0.3), 0.8, STAY),
        (_speed(HISTORY, 1.5, 0.05), 0.8, SWITCH),
        (_speed(HISTORY, 1.5, 0.4), 0.8, PROBE),
        (_speed(PRIOR, 1.5, 0.05), 0.8, PROBE),
        (_speed("", 1.5, 0.05), 0.8, STAY),
    ],
)
def test_what_it_advises(speed, price, kind):
    assert decide(_prediction(speed), [Cost(price)]).kind == kind


def test_the_second_probe_is_the_one_that_adds_most():
    """Two GPUs that stand and fall together are worth one probe, unlike two that don't."""
    alike = np.array([[1.0, 0.999, 0.0], [0.999, 1.0, 0.0], [0.0, 0.0, 1.0]]) * 0.3**2
    known = (_speed(PRIOR, 1.0, 0.3), _speed(PRIOR, 0.99, 0.3), _speed(PRIOR, 0.95, 0.3))
    advice = decide(Prediction(known, alike), [Cost(0.8)] * 3)
    assert advice.kind == PROBE
    assert set(advice.targets) == {0, 2}
    assert advice.odds is not None
    assert 0.5 < advice.odds < 1
