"""The unsubscribe link of every mail. Its token is enough: no sign-in is needed.

Mail scanners fetch links, so GET only asks for confirmation. Mail programs send one POST without
cookies (RFC 8058), which must be enough.
"""

from __future__ import annotations

from django.core.signing import BadSignature
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from webapp.accounts.access import open_to_everybody
from webapp.accounts.models import Membership
from webapp.notify import scope, subscriptions
from webapp.notify.addresses import membership_and_kind
from webapp.notify.kinds import KINDS


@open_to_everybody
@csrf_exempt
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, unsubscribe_token: str) -> HttpResponse:
    """Asks by GET and unsubscribes by POST (repeating it changes nothing); a POST with `undo`
    subscribes again.

    The page names neither person nor workspace, since the mail may have been forwarded.
    """
    try:
        member, kind = membership_and_kind(unsubscribe_token)
    except BadSignature:
        return render(request, "notify/unsubscribe.html", {"is_unknown": True}, status=404)
    if request.method == "POST" and member is not None:
        subscriptions.switch(member, kind, is_on="undo" in request.POST)
    context = {
        "kind": KINDS.get(kind),
        "is_member": member is not None,
        "is_on": member is not None and _is_on(member, kind),
        "is_answer": request.method == "POST",
    }
    return render(request, "notify/unsubscribe.html", context)


def _is_on(member: Membership, kind: str) -> bool:
    held = scope.subscriptions_of(member).filter(kind=kind).first()
    return held is not None and held.is_wanted
