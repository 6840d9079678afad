"""A label of the ledger has one colour, wherever and beside whatever it is drawn."""

from __future__ import annotations

from decimal import Decimal
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.training import LabelCost
from rules.ledger_labels import LABELS
from webapp.analysis.selectors.ledger import view_of
from webapp.dashboard import report

WEBAPP = Path(report.__file__).parents[2]
SHEETS = (WEBAPP / "static/css/charts.css", WEBAPP / "dashboard/report/style.css")
AMOUNTS = st.dictionaries(st.sampled_from(LABELS), st.integers(1, 10**12), min_size=1)


def colours(amounts: dict[str, int]) -> dict[str, str]:
    parts = [LabelCost(label, most, Decimal(most) / 10**9) for label, most in amounts.items()]
    view = view_of(parts, is_of_gpus=True)
    assert view is not None
    return {line.label: line.colour for line in view.lines}


@given(amounts=AMOUNTS)
def test_a_colour_depends_on_no_neighbour_and_no_size(amounts):
    assert colours(amounts) == {label: colours({label: 1})[label] for label in amounts}


def test_no_two_labels_look_the_same():
    every = colours(dict.fromkeys(LABELS, 1))
    known = sorted(every.values())
    assert [colour for colour, same in groupby(known) if len(list(same)) > 1] == []


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.name)
@pytest.mark.parametrize("label", LABELS)
def test_each_colour_is_in_the_style_sheets(label, sheet):
    colour, _, shade = colours({label: 1})[label].partition(" ")
    text = sheet.read_text(encoding="utf-8")
    assert f".ledger-{colour}" in text
    assert shade in ("", "shade-1") or f".{shade} {{" in text
