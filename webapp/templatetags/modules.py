"""The scripts of pages: with each module a browser learns at once what else to load."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from django import template
from django.contrib.staticfiles import finders
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()
_IMPORTED = re.compile(r'^import\s[^;]*?"\./([^"]+)"', re.MULTILINE)


@register.simple_tag
def module(name: str) -> SafeString:
    """Return the element of an ES module in static files, after those that load what it imports."""
    addresses = ((static(other),) for other in _imports(name))
    links = format_html_join("", '<link rel="modulepreload" href="{}">', addresses)
    return format_html('{}<script type="module" src="{}"></script>', links, static(name))


@cache
def _imports(name: str) -> tuple[str, ...]:
    """Return all modules that it needs, without itself."""
    known, left = {name}, [name]
    while left:
        current = Path(left.pop())
        text = Path(str(finders.find(str(current)))).read_text(encoding="utf-8")
        new = {str(current.parent / other) for other in _IMPORTED.findall(text)} - known
        known |= new
        left += new
    return tuple(sorted(known - {name}))
