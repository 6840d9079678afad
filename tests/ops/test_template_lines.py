"""The check of templates finds what their formatter leaves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_service import CHECKOUT
from webapp.management.commands.test import TEMPLATES, checks


def run_check(*paths: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the check over these paths."""
    return subprocess.run(
        [sys.executable, str(CHECKOUT / "tools" / "template_lines.py"), *map(str, paths)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<p>" + "x" * 118 + "\n", ["1: longer than 120 characters"]),
        ("<p>\n  {{ a }}\n  {% if b %}, {{ b }}{% endif %}\n</p>", ["3: a space before"]),
        ("<p>{{ a }}\n{% with b=c %}{% if b %}: {{ b }}{% endif %}", ["2: a space before"]),
        ('<p>\n  {% include "a.html" with b=c %}. Then', ["2: a space before"]),
        ("{% if a %}{% for b in a %}{{ b }}{% endfor %} {% if c %}.{% endif %}", ["1: a space"]),
    ],
)
def test_it_finds_lines_and_spaces(tmp_path: Path, text: str, found: list[str]) -> None:
    path = tmp_path / "page.html"
    path.write_text(text)
    result = run_check(tmp_path)
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert len(lines) == len(found)
    assert all(
        line.startswith(f"{path}:{problem}") for line, problem in zip(lines, found, strict=True)
    )


@pytest.mark.parametrize(
    "text",
    [
        "<p>" + "ä" * 117 + "\n",
        "<p>\n  {{ a }}{% if b %},\n    {{ b }}{% endif %}\n</p>",
        '<p>\n  {{ a }}{{ b|phrase:", %s" }}\n</p>',
        "<p>\n  {% if a %}.venv{% endif %}\n</p>",
        "{% for a in b %}{% if not forloop.first %}, {% endif %}{{ a }}{% endfor %}",
    ],
)
def test_it_leaves_other_lines_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "page.html").write_text(text)
    assert run_check(tmp_path / "page.html").stdout == ""


def test_it_is_a_stage_of_the_test_command() -> None:
    (stage,) = [stage for stage in checks() if stage.name == "template lines"]
    assert stage.command[-2:] == ["tools/template_lines.py", TEMPLATES]
