"""Pages and operations start from a scope and never query a table directly."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from django.conf import settings

DOORS = sorted(
    path
    for pattern in ("*/views/*.py", "api/*.py", "*/views.py")
    for path in (settings.BASE_DIR / "webapp").glob(pattern)
)


def managers_used(code: str) -> list[int]:
    """Return the lines that reach for a model's manager."""
    attributes = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute))
    return [node.lineno for node in attributes if node.attr in ("objects", "_default_manager")]


@pytest.mark.parametrize("path", DOORS, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_no_door_reaches_past_its_scope(path: Path):
    assert managers_used(path.read_text(encoding="utf-8")) == []


def test_it_would_be_noticed():
    assert managers_used("def view(request):\n    return Run.objects.get(pk=1)") == [2]
