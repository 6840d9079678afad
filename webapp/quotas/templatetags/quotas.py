"""Notices about quotas, for any page of a workspace."""

from __future__ import annotations

from typing import Any

from django import template

from webapp.accounts.models import Workspace
from webapp.quotas import usage

register = template.Library()


@register.inclusion_tag("quotas/notice.html", takes_context=True)
def quota_notice(context: template.Context) -> dict[str, Any]:
    """Return the context of the notice. Members see a quota that is used up, owners also one that
    soon will be.
    """
    request = context.get("request")
    workspace: Workspace | None = getattr(request, "workspace", None)
    if request is None or workspace is None:
        return {"lines": []}
    lines = usage.pressing_quotas(workspace)
    return {"lines": [line for line in lines if line.state == "over" or request.is_owner]}
