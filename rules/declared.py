"""The sections of a rule's page that follow from its declaration: what it claims, and what rules it
out. They can't differ from what the rule does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rules.claims import Directness
from rules.ledger_labels import LEFT_TO_SYMPTOMS
from rules.ledger_words import WORDS
from rules.materiality import has_floor
from rules.rule import Rule

IN_WORDS = {**WORDS, "effective": "work"}
PRECEDENCE = {
    Directness.TOLD_CAUSE: "The cause follows from what the training reports. Of time that other "
    "rules claim too, this rule gets its part first.",
    Directness.MEASURED_CAUSE: "The cause is measured. Of time that other rules claim too, this "
    "rule gets what no reported cause claims.",
    Directness.SYMPTOM: "The rule sees an effect, not its cause. It gets only what no rule about a "
    "cause claims.",
}


def with_declared_sections(rule: Rule) -> Rule:
    """Return the rule with the two sections in its documentation, before the way to fix it."""
    sections = (("What it claims", _claims(rule)), ("What rules it out", _exclusions(rule)))
    text = "".join(f"## {title}\n{body}\n\n" for title, body in sections)
    documentation = rule.documentation.replace("## How to fix it", f"{text}## How to fix it", 1)
    return replace(rule, documentation=documentation)


def _claims(rule: Rule) -> str:
    if not rule.claims_on:
        return "Nothing: the rule names no waste."
    is_symptom = rule.directness == Directness.SYMPTOM
    open_labels = [each for each in rule.claims_on if not is_symptom or each in LEFT_TO_SYMPTOMS]
    explained = [each for each in rule.claims_on if each not in open_labels]
    several = ", from the first to the last of these" if len(open_labels) > 1 else ""
    parts = [f"Time of the ledger{several}:\n{_listed(open_labels)}", PRECEDENCE[rule.directness]]
    if explained:
        why = "It gets no time of these, which tell the cause by themselves:"
        parts.append(f"{why}\n{_listed(explained)}")
    return "\n\n".join(parts)


def _listed(labels: list[str]) -> str:
    return "\n".join(f"- {IN_WORDS[label]} (`{label}`)" for label in labels)


def _exclusions(rule: Rule) -> str:
    found = list(_reasons(rule))
    return "\n".join(f"- {each}" for each in found) if found else "Nothing but its thresholds."


def _reasons(rule: Rule) -> Iterator[str]:
    yield from rule.ruled_out_by
    for need in rule.needs:
        names = " or ".join(f"`{name}`" for name in need.split("|"))
        yield f"The run has no {names}: there is too little data."
    if rule.awaits_end:
        yield "The run has not ended yet."
    if rule.claims_on and has_floor(rule):
        yield "The waste is below `least_waste_pct` of the run's cost, or below `least_waste_usd`."
