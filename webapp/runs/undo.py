"""A message about an action, with an undo button."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe


def offer(request: HttpRequest, done: str, address: str, **fields: str) -> None:
    """Show a message with an undo button, which posts `fields` to `address`."""
    context = {"done": done, "address": address, "fields": fields}
    shown = render_to_string("runs/undo.html", context, request)
    messages.success(request, mark_safe(shown))  # noqa: S308 - the template escaped it
