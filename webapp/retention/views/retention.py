"""The retention settings, what will be deleted next, and what was deleted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from advisor.store.opening import open_store
from webapp.accounts import audit
from webapp.accounts.access import PersonRequest, changed_by_owners
from webapp.retention import scope
from webapp.retention.forms import FIELDS, RetentionForm
from webapp.retention.plan import PlannedDeletion, plan

KINDS = {
    "raw": "single samples",
    "tiers": "means, steps and events",
    "artefact": "artefacts",
    "run": "runs",
    "job": "deleted jobs",
}
MOST_REPORTS = 10


@dataclass(frozen=True)
class Sum:
    """The number of items of one kind."""

    kind: str
    count: int
    size_bytes: int


@changed_by_owners
@require_http_methods(["GET", "POST"])
def retention(request: PersonRequest) -> HttpResponse:
    """Shows the settings, which owners can change. The preview uses the stored settings."""
    before = {name: getattr(request.workspace, name) for name in FIELDS}
    form = RetentionForm(request.POST or None, instance=request.workspace)
    if request.method == "POST" and form.is_valid():
        return _save(request, form, before)
    if request.method == "POST":
        request.workspace.refresh_from_db()
    doomed = plan(request.workspace, open_store(settings.OBJECTS_URL), timezone.now())
    reports = scope.reports_of(request.workspace)[:MOST_REPORTS]
    context = {
        "form": form,
        "sums": sums(doomed),
        "size_bytes": sum(item.size_bytes for item in doomed),
        "reports": [(report, _words(report.counts)) for report in reports],
    }
    return render(request, "retention/retention.html", context)


def sums(doomed: list[PlannedDeletion]) -> list[Sum]:
    """Return the sums by kind, in the order of `KINDS`."""
    ordered = sorted(doomed, key=lambda item: list(KINDS).index(item.kind))
    grouped = ((kind, list(items)) for kind, items in groupby(ordered, key=lambda item: item.kind))
    return [
        Sum(KINDS[kind], len(items), sum(item.size_bytes for item in items))
        for kind, items in grouped
    ]


def _save(
    request: PersonRequest, form: RetentionForm, before: dict[str, int | None]
) -> HttpResponse:
    form.save()
    change = {n: (before[n], form.cleaned_data[n]) for n in FIELDS if n in form.changed_data}
    if change:
        audit.record(request.workspace, request.user, "retention.changed", "Retention", change)
    messages.success(request, "Saved. The next daily deletion uses these settings.")
    return redirect("retention:retention")


def _words(counts: dict[str, int]) -> str:
    named = Counter({KINDS.get(kind, kind): count for kind, count in counts.items()})
    return ", ".join(f"{count} {kind}" for kind, count in named.items())
