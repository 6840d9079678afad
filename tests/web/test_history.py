"""The audit log, as owners see it."""

from __future__ import annotations

import csv
import io

import pytest

from webapp.accounts import audit
from webapp.http.downloads import plain_cell

PAGE, CSV = "/settings/history/", "/settings/history.csv"


@pytest.fixture
def entries(owner) -> None:  # type: ignore[no-untyped-def]
    audit.record(owner.workspace, owner.user, "token.created", "Token ci")
    audit.record(owner.workspace, None, "price.refreshed", "=cmd|' /C calc'!A1", {"usd": (1, 2)})


def test_it_shows_who_did_what_and_filters(owner, entries):
    page = owner.page(PAGE)
    assert "Token ci" in page
    assert "usd: 1 → 2" in page
    chosen = owner.page(f"{PAGE}?action=token.created")
    assert "Token ci" in chosen
    assert "usd: 1 → 2" not in chosen
    assert "usd: 1 → 2" in owner.page(f"{PAGE}?actor=Trimtab")


def test_its_csv_holds_no_formula(owner, entries):
    rows = list(csv.DictReader(io.StringIO(owner.page(CSV))))
    assert [row["action"] for row in rows] == ["price.refreshed", "token.created"]
    assert rows[0]["subject"].startswith("'=cmd")
    assert (rows[0]["field"], rows[0]["before"], rows[0]["after"]) == ("usd", "1", "2")


@pytest.mark.parametrize(
    ("value", "cell"),
    [(-1.5, "-1.5"), ("-1.5", "'-1.5"), ("@a", "'@a"), ("\tx", "'\tx"), (None, ""), ("a=b", "a=b")],
)
def test_a_cell_that_looks_like_a_formula_is_text(value, cell):
    assert plain_cell(value) == cell
