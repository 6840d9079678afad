"""The report as a response that loads nothing: its style is in the file, allowed by its hash."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from webapp.dashboard.report.report import run_report
from webapp.runs.models import Run

_STYLE = Path(__file__).with_name("style.css")


def report_answer(run: Run, *, is_shared: bool = False) -> HttpResponse:
    """Return the report; a shared one doesn't say where the service is."""
    style, policy = _style()
    context = {"report": run_report(run), "run": run, "style": mark_safe(style), "policy": policy}  # noqa: S308
    context["is_shared"] = is_shared
    response = HttpResponse(render_to_string("report/report.html", context))
    # A header alone can forbid frames.
    response["Content-Security-Policy"] = f"{policy}; frame-ancestors 'none'"
    return response


@cache
def _style() -> tuple[str, str]:
    """Return the file's style, and the policy that allows this style and nothing else."""
    style = _STYLE.read_text(encoding="utf-8")
    known = b64encode(sha256(style.encode()).digest()).decode()
    inside = f"style-src 'sha256-{known}'"
    return (
        style,
        f"default-src 'none'; {inside}; img-src data:; base-uri 'none'; form-action 'none'",
    )
