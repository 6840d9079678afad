"""Files that people reported, where the machine that runs the tests has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_CHECKOUT = Path(__file__).resolve().parents[2]
_FIXTURES = os.environ.get("TRIMTAB_FIXTURES", _CHECKOUT.parent / "shared" / "fixtures")


def reported(name: str) -> Path:
    """Return the file, or skip the test."""
    path = Path(_FIXTURES) / "reported" / name
    if not path.is_file():
        pytest.skip("the reported files aren't here")
    return path
