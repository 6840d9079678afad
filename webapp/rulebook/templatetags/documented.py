"""Lines of a rule's docstring as HTML."""

from __future__ import annotations

from django import template
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from webapp.rulebook.documentation import pieces

register = template.Library()
_TAGS = {"code": "code", "strong": "strong", "plain": "span"}


@register.filter
def documented(line: str) -> SafeString:
    """Return the line escaped, with `code` and **strong** as elements."""
    parts = ((_TAGS[kind], text, _TAGS[kind]) for kind, text in pieces(line))
    return format_html_join("", "<{}>{}</{}>", parts)
