"""The stored results of an analysis: nothing is lost, and earlier versions can be read."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.electricity import Electricity
from advisor.costing.projection import Projection
from advisor.model_flops import ModelFlops
from advisor.run_summary import (
    RunSummary,
    SuccessiveVerdict,
    Trouble,
    from_document,
    to_document,
)

_floats = st.floats(allow_nan=False, allow_infinity=False)
_usd = st.decimals(0, 10**9, places=9)
_texts = st.text(max_size=20)


def _of(kind: type) -> st.SearchStrategy:  # type: ignore[type-arg]
    numbers = {"int": st.integers(0, 10**12), "float": _floats, "Decimal": _usd, "str": _texts}
    optional = {f"{name} | None": st.none() | each for name, each in numbers.items()}
    others = {
        "bool": st.booleans(),
        "list[str]": st.lists(_texts, max_size=3),
        "dict[str, float]": st.dictionaries(_texts, _floats, max_size=3),
        "dict[str, Decimal]": st.dictionaries(_texts, _usd, max_size=3),
    }
    known = numbers | optional | others
    if kind is RunSummary:
        known["Projection | None"] = st.none() | _of(Projection)
        known["Electricity | None"] = st.none() | _of(Electricity)
        known["ModelFlops | None"] = st.none() | _of(ModelFlops)
        known["SuccessiveVerdict | None"] = st.none() | _of(SuccessiveVerdict)
        known["list[Trouble]"] = st.lists(_of(Trouble), max_size=3)
    return st.builds(kind, **{name: known[type_] for name, type_ in kind.__annotations__.items()})


@given(_of(RunSummary))
def test_a_stored_summary_is_read_as_it_was_written(summary: RunSummary) -> None:
    assert from_document(json.loads(json.dumps(to_document(summary)))) == summary


def test_a_row_of_before_there_were_versions_is_read() -> None:
    stored = {"usd_per_hour": "0.085", "phase_usd": {"train": "0.01"}, "gpu_busy_p95_pct": None}
    summary = from_document(stored)
    assert summary.usd_per_hour == Decimal("0.085")
    assert summary.phase_usd == {"train": Decimal("0.01")}
    assert summary.gpu_busy_p95_pct is None


def test_a_run_that_was_not_analysed_has_no_figures() -> None:
    summary = from_document({})
    assert summary == RunSummary()
    counts = (summary.steps, summary.node_count, summary.unreadable, summary.missing_segments)
    assert counts == (None, None, None, None)


def test_a_later_version_is_refused_by_its_number() -> None:
    with pytest.raises(ValueError, match="version 2; this service knows 1"):
        from_document({"version": 2})
