"""The page about a workspace's background work."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import PersonRequest, owners_only
from webapp.background import claims, overview, waking
from webapp.background.kinds import HIDDEN, all_kinds, kind_called
from webapp.background.lag import MINUTES


@owners_only
@require_safe
def background(request: PersonRequest) -> HttpResponse:
    """Shows work that is waiting, running, failed or recently done."""
    state, kind = request.GET.get("state", ""), kind_called(request.GET.get("kind", ""))
    state = state if state in overview.WORDS else ""
    kinds = all_kinds() if kind is None else [kind]
    number, now = request.GET.get("page"), timezone.now()
    context = {
        "page": overview.items(request.workspace, kinds, state, number, now),
        "lags": overview.lags(request.workspace, now),
        "lag_minutes": MINUTES,
        "states": overview.WORDS.items(),
        "kinds": [each for each in all_kinds() if each.shown is not HIDDEN],
        "state": state,
        "kind": kind,
    }
    return render(request, "background/background.html", context)


@owners_only
@require_POST
def try_again(request: PersonRequest) -> HttpResponse:
    """Retry failed work, then redirect to the list with its filter."""
    kind, row_id = kind_called(request.POST.get("kind", "")), request.POST.get("row", "")
    is_due = False
    if kind is not None and kind.may_be_tried_again and row_id.isdecimal():
        rows = kind.rows_of(request.workspace).filter(pk=int(row_id[:18]))
        is_due = claims.retry_failed(kind, rows) == 1
        waking.wake_on_commit(kind, pk__in=rows.values("pk"))
    if is_due:
        messages.success(request, "It will be tried again within seconds.")
    else:
        messages.error(request, "This work has not failed, or no longer exists.")
    return redirect(f"{reverse('background:background')}?{request.GET.urlencode()}")
