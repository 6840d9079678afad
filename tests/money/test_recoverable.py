"""Fixes give back time that is priced where it was spent, and never twice."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.recoverable import TakenPart, recoverable_of_claims, taken_words
from rules.claims import Claim
from rules.ledger import LabelTime, WasteLedger
from rules.ledger_labels import LABELS
from rules.registry import all_rules

SECOND = 1_000_000
HALF_UNUSED = WasteLedger(
    (
        LabelTime("cheap", None, "effective", 100 * SECOND),
        LabelTime("dear", 0, "effective", 100 * SECOND),
        LabelTime("dear", 1, "unused_gpu", 100 * SECOND),
    )
)
COSTS = {"cheap": Decimal(1), "dear": Decimal(10)}


def test_time_is_priced_at_the_node_on_which_it_was_spent() -> None:
    """Half of the dear node is a quarter of the run's time, and $5 of its $11."""
    claims = {"unused_gpus": [Claim(("unused_gpu",), 25.0, 0.5, 1.0)]}
    found = recoverable_of_claims(claims, HALF_UNUSED, 100.0, COSTS)["unused_gpus"]
    assert (found.seconds_low, found.seconds_high) == pytest.approx((12.5, 25))
    assert (found.usd_low, found.usd_high) == (Decimal("2.5"), Decimal(5))


def test_without_a_price_there_is_time_and_no_money() -> None:
    claims = {"unused_gpus": [Claim(("unused_gpu",), 25.0, 0.5, 1.0)]}
    found = recoverable_of_claims(claims, HALF_UNUSED, 100.0, None)["unused_gpus"]
    assert (found.seconds_high, found.usd_high) == (pytest.approx(25), None)


def test_a_symptom_names_the_cause_that_took_its_time_with_its_price() -> None:
    claims = {
        "unused_gpus": [Claim(("unused_gpu",), 25.0, 0.5, 1.0)],
        "low_gpu_utilization": [Claim(("unused_gpu",), 20.0, 0.5, 1.0)],
    }
    found = recoverable_of_claims(claims, HALF_UNUSED, 100.0, COSTS)["low_gpu_utilization"]
    assert (found.explained_by, found.seconds_high, found.usd_high) == ("unused_gpus", 0, 0)
    assert found.taken == (TakenPart("unused_gpus", pytest.approx(20), Decimal(4)),)
    assert taken_words(found.taken) == (
        "Part of this time is explained by other findings: Unused GPUs 20 s ($4.00)."
    )


@given(
    st.dictionaries(
        st.sampled_from(sorted(all_rules())),
        st.lists(
            st.builds(
                Claim,
                st.tuples(st.sampled_from(LABELS)),
                st.floats(0, 200),
                st.just(0.5),
                st.just(1.0),
            ),
            max_size=2,
        ),
    ),
    st.dictionaries(
        st.tuples(st.sampled_from(["cheap", "dear"]), st.sampled_from(LABELS)),
        st.integers(1, 100 * SECOND),
    ),
)
def test_findings_give_back_at_most_the_runs_cost(
    claims: dict[str, list[Claim]], times: dict[tuple[str, str], int]
) -> None:
    ledger = WasteLedger(
        tuple(LabelTime(node, None, label, us) for (node, label), us in times.items())
    )
    costs = {node: COSTS[node] for node in ledger.nodes}
    found = recoverable_of_claims(claims, ledger, 100.0, costs).values()
    assert sum((each.usd_high or Decimal(0)) for each in found) <= sum(costs.values())
    assert sum(each.seconds_high for each in found) <= 100.0 * (1 + 1e-9)
