"""Claims of a page about money and time, and those that contradict each other: read from its HTML
as a person would, without the code that wrote it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from html.parser import HTMLParser
from itertools import pairwise

USD = r"−?<?\$[\d,]+(?:\.\d+)?"
LARGE_WASTE_PCT = 20.0
CATEGORIES = (
    *("Effective", "No samples", "Unclassified", "Unused GPU", "Loading checkpoints", "Start-up"),
    *("Idle at the end", "Hung", "Restart", "Checkpoints", "Evaluation", "Between epochs"),
    *("Compilation", "First steps", "Lost work", "Waiting for data", "Communication"),
    *("Throttled", "Low SM activity", "Idle GPU", "Starved", "Unused cores"),
)
NO_WASTE = ("Effective", "No samples", "Unclassified")
_WITHIN = {
    name: name if name[1:2].isupper() else name[:1].lower() + name[1:] for name in CATEGORIES
}
_HAS_FAILED = re.compile(r'id="failure"|state-(failed|stopped|lost)\b')
_SKIPPED = {"script", "style", "svg", "head", "title"}
_BLOCKS = {"p", "li", "div", "tr", "dt", "dd", "h1", "h2", "h3", "section", "summary", "article"}
_CELLS = {"td", "th"}


@dataclass
class PageText(HTMLParser):
    """A page as text: a line for each block, cells of tables parted by ` | `."""

    parts: list[str] = field(default_factory=list)
    _skipped: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped += tag in _SKIPPED
        if tag in _BLOCKS:
            self.parts.append("\n")
        if tag in _CELLS:
            self.parts.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in _SKIPPED
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.parts.append(data.replace("\n", " "))

    @property
    def lines(self) -> list[str]:
        every = (re.sub(r"\s+", " ", line).strip() for line in "".join(self.parts).splitlines())
        return [line for line in every if line]


def lines_of(html: str) -> list[str]:
    page = PageText()
    page.feed(html)
    return page.lines


def figures_of(html: str) -> dict[str, set[str]]:
    """Return what the page says of each figure that may stand in several places."""
    lines, figures = lines_of(html), defaultdict(set)
    for name, value in [*_headline(lines), *_ledger(lines), *_savings(lines), *_sentences(lines)]:
        figures[name].add(value)
    return figures


def contradictions(html: str) -> list[str]:
    """Return every figure with two values, and the sentences that can't both be true."""
    figures, text = figures_of(html), "\n".join(lines_of(html))
    unequal = [
        f"{name}: {' and '.join(sorted(values))}"
        for name, values in figures.items()
        if len(values) > 1
    ]
    return [*unequal, *_untrue_sums(lines_of(html)), *_untrue_sentences(html, text)]


def compared_count(html: str) -> int:
    """Return the number of figures of the page that are compared."""
    return len(figures_of(html))


def _headline(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the figures at the head of a run: what follows their titles."""
    for title, value in pairwise(lines):
        if title in ("Cost", "Cost so far") and (found := re.search(USD, value)):
            yield "cost of the run", found[0]
        if title.startswith("Waste") and (found := re.match(USD, value)):
            yield "waste", found[0]
        if title.startswith("Waste") and (share := re.search(r"<?\d+ %", value)):
            yield "share of waste", share[0]


def _ledger(lines: list[str]) -> Iterator[tuple[str, str]]:
    for name, usd in _ledger_rows(lines):
        yield f"cost of {name}", usd
    for line in lines:
        if found := re.match(rf"\| Total \| 100 % \| ({USD})$", line):
            yield "cost of the run", found[1]
        for name, within in _WITHIN.items():
            if found := re.fullmatch(rf"{re.escape(within)}: ({USD})", line):
                yield f"cost of {name}", found[1]


def _ledger_rows(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")[1:]]
        if len(cells) >= 3 and cells[0] in CATEGORIES and re.fullmatch(USD, cells[-1]):
            yield cells[0], cells[-1]


def _savings(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the saving of the recommendation to follow first, from its lead and from its terms."""
    text = "\n".join(lines)
    lead = re.search(rf"Do this first\n(?:[^\n]+\n){{0,4}}?([^\n]+?): saves ({USD})", text)
    if not lead:
        return
    yield "saving a run of what is first", lead[2]
    if cost := re.search(rf": saves {USD} of ({USD}) a run", text):
        yield "cost of the run", cost[1]
    if terms := re.search(rf"\nSaving per run\n({USD})(?: ({USD} to {USD}))?", text):
        yield "saving a run of what is first", terms[1]
        if terms[2]:
            yield "interval of what is first", terms[2]
    if interval := re.search(rf"({USD} to {USD}) a run\.", text):
        yield "interval of what is first", interval[1]


def _sentences(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if found := re.search(r"(\d+ of \d+) rules had (?:enough )?data", line):
            yield "rules that had data", found[1]
        if found := re.fullmatch(r"(<?\d+) % waiting for data", line):
            yield "wait for data, of the step time", found[1]
        if found := re.search(r"waited for data for (\d+(?:\.\d+)?) % of", line):
            yield "wait for data, of the step time", f"{float(found[1]):.0f}"
        if found := re.search(rf"all of its ({USD}) is the cost of the failure", line):
            yield "cost of the run", found[1]
        if found := re.search(rf"though ({USD}), (\d+ %) of its cost, was waste", line):
            yield "waste", found[1]
            yield "share of waste", found[2]
        if found := re.search(rf"({USD}) of ({USD}) wasted", line):
            yield "waste", found[1]
            yield "cost of the run", found[2]


def _untrue_sums(lines: list[str]) -> Iterator[str]:
    """Yield a waste that isn't the sum of the categories that are waste."""
    told = [value for name, value in _headline(lines) if name == "waste"]
    rows = dict(_ledger_rows(lines))
    if not told or not rows or any(usd.startswith("<") for usd in (*told, *rows.values())):
        return
    wasted = [_amount(usd) for name, usd in rows.items() if name not in NO_WASTE]
    rounding = Decimal("0.006") * (len(wasted) + 1)
    if abs(sum(wasted, Decimal(0)) - _amount(told[0])) > rounding:
        yield f"waste: {told[0]}, but its categories sum to ${sum(wasted, Decimal(0))}"


def _untrue_sentences(html: str, text: str) -> Iterator[str]:
    fired = re.search(r"\n(\d+) of \d+ fired", text)
    waste = re.search(r"\nWaste[^\n]*\n[^\n]*?(\d+) %", text)
    is_wasteful = waste is not None and float(waste[1]) > LARGE_WASTE_PCT
    is_good, has_failed = "notice-good" in html, _HAS_FAILED.search(html)
    claims = {
        "a failed run has a tick": is_good and has_failed is not None,
        "a run that is too short to judge has a tick": is_good and "Too short to judge" in text,
        "no rule fired, and some did": bool(
            "No rule fired" in text and fired and int(fired[1]) > 0
        ),
        "no rule fired, without a word of the waste": is_wasteful
        and "No rule fired on this run." in text,
        "nothing to change, with large waste": is_wasteful and "Nothing to change" in text,
        "nothing to change, and something to do first": "Nothing to change" in text
        and "Do this first" in text,
        "nothing to change, and something not judged": bool(
            re.search(r"Nothing to change[^\n]*not judged", text)
        ),
        "nothing needs anybody, and no price is known": "Nothing needs you" in text
        and "no price yet" in text,
        "an unknown cost is zero": bool(re.search(r"\nCost\nno price\b", text)) and "$0.00" in text,
        "nothing was spent, and something has no price": "Nothing was spent" in text
        and "no price yet" in text,
    }
    return (words for words, is_untrue in claims.items() if is_untrue)


def _amount(usd: str) -> Decimal:
    return Decimal(usd.replace("$", "").replace(",", "").replace("−", "-"))
