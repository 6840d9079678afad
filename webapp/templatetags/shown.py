"""Formats figures on every page: one place, so that one thing looks the same everywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from advisor.money import (
    display_signed_usd,
    display_usd,
    display_usd_per_unit,
    exact_usd,
    plain_usd,
)
from rules.wording import two_units

if TYPE_CHECKING:
    from webapp.runs.models import Run

register = template.Library()
NOTHING = "–"
MINUS = "−"
MANY = 999.5
"""The value from which three digits would be written as a power of ten."""


@register.filter
def usd(amount: Decimal | None) -> str:
    """Format an amount: `$0.0123` below a dollar, else `$12.34`; "no price" for None."""
    return display_usd(amount)


@register.filter
def usd_per_unit(amount: Decimal) -> str:
    """Format an amount per unit of work: as `usd` does, with at least three significant digits."""
    return display_usd_per_unit(amount)


@register.simple_tag(takes_context=True)
def usd_of(context: template.Context, amount: Decimal | None, run: Run) -> str:
    """Format an amount as `usd` does. "no price" leads people who may change things to the run's
    machine.
    """
    if amount is not None or not context["request"].may_change:
        return usd(amount)
    address = reverse("runs:edit_run", args=[run.pk])
    title = "Check its machine and region, or enter a rate in Settings, Rates"
    return format_html('<a href="{}#machine" title="{}">{}</a>', address, title, usd(None))


@register.simple_tag
def price_help(run: Run, css_class: str = "") -> str:
    """Return a link to what helps a run without a price: its machine, its region, or a rate."""
    address = f"{reverse('runs:edit_run', args=[run.pk])}#machine"
    if not run.summary.instance_types:
        words = "Name the machine"
    elif any("region that was not declared" in reason for reason in run.summary.missing):
        words = "Choose the machine's region"
    else:
        address, words = reverse("prices:rates"), "Enter a rate"
    return format_html('<a class="{}" href="{}">{}</a>', css_class, address, words)


@register.simple_tag
def usd_among(amount: Decimal | None, **query: object) -> str:
    """Format an amount as `usd` does. "no price" leads to the runs without one, chosen by the
    query.
    """
    if amount is not None:
        return usd(amount)
    return format_html('<a href="{}">{}</a>', unpriced(**query), usd(None))


@register.simple_tag
def unpriced(**query: object) -> str:
    """Return the address of the list of runs without a price, chosen by the query."""
    given = {name: str(value) for name, value in query.items() if value not in ("", None)}
    return f"{reverse('dashboard:runs')}?{urlencode({'price': 'none', **given})}"


@register.filter
def axis_usd(amount: Decimal) -> str:
    """Return a round amount on an axis, without needless digits: `$200`, `$0.50`."""
    whole, _, digits = plain_usd(abs(amount)).partition(".")
    return f"{MINUS if amount < 0 else ''}${whole}{f'.{digits:0<2}' if digits else ''}"


@register.filter
def axis_seconds(length: float) -> str:
    """Return a round length on an axis: `30 min`, `1.5 h`."""
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    size, unit = next((each for each in units if length >= each[0]), units[-1])
    return f"{length / size:.3g} {unit}"


@register.filter
def rate(usd_per_hour: str | Decimal) -> str:
    """Return a price with all its digits, at least two decimals: `0.085000000` -> `0.085`."""
    return exact_usd(Decimal(usd_per_hour))


@register.filter
def signed_usd(amount: Decimal | None) -> str:
    return display_signed_usd(amount)


@register.filter
def seconds(value: float | None) -> str:
    """Return a length of time in the two units that matter: `8 m 22 s`, `1.25 s`, `310 ms`."""
    if value is None:
        return NOTHING
    sign = MINUS if value < 0 else ""
    value = abs(value)
    if round(value) < 60:
        return sign + _short(value)
    return sign + two_units(round(value))


def _short(value: float) -> str:
    if value == 0 or value >= 10:
        return f"{value:.0f} s"
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.2g} ms"


@register.filter
def signed_seconds(value: float | None) -> str:
    """Format whole seconds: `+13 m 6 s`, `−1 s`; without a sign if it rounds to nothing."""
    if value is None:
        return NOTHING
    whole = round(abs(value))
    sign = "" if not whole else MINUS if value < 0 else "+"
    return f"{sign}{whole} s" if whole < 60 else f"{sign}{two_units(whole)}"


@register.filter
def length_words(value: timedelta | None) -> str:
    return NOTHING if value is None else seconds(value.total_seconds())


@register.filter
def magnitude(value: Decimal) -> Decimal:
    return abs(value)


@register.filter
def binary_bytes(value: float | None) -> str:
    if value is None:
        return NOTHING
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            is_whole = unit == "B" or abs(value) >= MANY
            return f"{value:.0f} {unit}" if is_whole else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


@register.filter
def percent(value: float | None) -> str:
    """Format a percentage: 0..100 -> `43 %`."""
    return NOTHING if value is None else f"{value:.0f} %"


@register.filter
def share(value: float | str | None) -> str:
    """Format a share: 0..1 -> `43 %`. Empty text is what a template finds where a summary lacks the
    figure.
    """
    if value is None or isinstance(value, str):
        return NOTHING
    rounded = f"{value * 100:.0f} %".replace("-", MINUS)
    return "<1 %" if value > 0 and rounded == "0 %" else rounded


@register.filter
def signed_share(value: float) -> str:
    """Format a change: 0.18 -> `+18 %`; without a sign if it rounds to nothing."""
    size = f"{abs(100 * value):.0f} %"
    return size if size == "0 %" else f"{MINUS if value < 0 else '+'}{size}"


@register.filter
def number(value: object) -> str:
    """Return a quantity with thousands apart and at most four significant decimals."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return str(value)
    plain = float(value)
    if plain.is_integer():
        return f"{int(value):,}"
    return f"{plain:,.1f}" if abs(plain) >= 1000 else f"{plain:.4g}"


@register.filter
def words(value: str) -> str:
    """Replace underscores by spaces, as in `not applicable`."""
    return str(value).replace("_", " ")


@register.filter
def sentence(text: str) -> str:
    """Begin with a capital letter, unless the first word is a name, as of a file."""
    first = text.partition(" ")[0]
    return text if set("./_") & set(first.rstrip(".")) else text[:1].upper() + text[1:]


@register.filter
def inside(title: str) -> str:
    """Write a title within a sentence: `idle GPU`, and `GPU memory` as it is."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


@register.filter(is_safe=True)
def phrase(value: object, pattern: str) -> str:
    """Write `value` where `pattern` has `%s`: `, %s cores`. Return "" for what is missing, zero or
    shown as a dash, so that a sentence needs no block around its optional parts.
    """
    if not value or value in ("0", NOTHING):
        return ""
    return pattern.replace("%s", str(value))


@register.filter
def with_code(text: str) -> SafeString:
    """Mark what stands between backticks as code, as messages of the command line have it."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts = [text]
    marked = (
        format_html("<code>{}</code>" if n % 2 else "{}", each) for n, each in enumerate(parts)
    )
    return format_html_join("", "{}", ((each,) for each in marked))


@register.filter
def ago(moment: datetime | None) -> str | SafeString:
    """Format a time: `4 min ago`, with the exact time where it is pointed at."""
    if moment is None:
        return NOTHING
    exact = moment.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        exact.isoformat(timespec="seconds"),
        exact.strftime("%Y-%m-%d %H:%M:%S"),
        _ago((timezone.now() - moment).total_seconds()) or exact.strftime("%Y-%m-%d"),
    )


def _ago(passed: float) -> str:
    """Return the time ago; empty beyond two months: a date is easier to grasp then."""
    if passed < 60:
        return f"{passed:.0f} s ago" if passed >= 10 else "just now"
    if passed < 3600:
        return f"{passed // 60:.0f} min ago"
    if passed < 2 * 86_400:
        return f"{passed // 3600:.0f} h ago"
    return f"{passed // 86_400:.0f} days ago" if passed < 60 * 86_400 else ""


@register.filter
def moment(value: datetime | None) -> str:
    return NOTHING if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


@register.simple_tag(takes_context=True)
def address(context: template.Context, **changes: object) -> str:
    """Return this page's address with these query values; a page number never survives a change."""
    query = context["request"].GET.copy()
    query.pop("page", None)
    for name, value in changes.items():
        query[name] = str(value)
        if value in ("", None):
            del query[name]
    return f"?{query.urlencode()}"


@register.simple_tag(takes_context=True)
def kept(context: template.Context, *changed: str) -> SafeString:
    """Return hidden fields for the query of this page's address, without what a form changes."""
    pairs = (
        (name, value)
        for name, values in context["request"].GET.lists()
        for value in values
        if name not in (*changed, "page")
    )
    return format_html_join("", '<input type="hidden" name="{}" value="{}">', pairs)
