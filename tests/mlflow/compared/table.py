"""Writes the table of `docs/mlflow.md` from the calls that are compared and their differences.

python -m tests.mlflow.compared.table
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.mlflow.compared.calls_of import read_areas
from tests.mlflow.compared.differences import DIFFERENCES

PAGE = Path(__file__).parents[3] / "docs" / "mlflow.md"
_HEAD = "| MLflow | calls compared | here |\n|---|---|---|\n"
_TABLE = re.compile(re.escape(_HEAD) + r"(?:\|.*\n)*")


def render_table() -> str:
    return _HEAD + "".join(
        f"| {area.title} | {len(area.calls)} | {_here(area.name)} |\n" for area in read_areas()
    )


def _here(area: str) -> str:
    told = [each.here for each in DIFFERENCES if each.area == area]
    return "the same, but: " + "; ".join(told) if told else "the same"


def written(page: str) -> str:
    """Return the page with the table as it is now. Raises ValueError if the page has none."""
    if not _TABLE.search(page):
        raise ValueError(f"{PAGE} has no table that begins with {_HEAD!r}.")
    return _TABLE.sub(lambda _: render_table(), page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
