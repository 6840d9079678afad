"""Corrects the machine of a run if the agent did not detect it or reported the wrong one."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from django.db import transaction
from django.utils import timezone

from advisor.pricing.catalogue import catalogue
from advisor.pricing.machine import DEFAULT_PROVIDER
from webapp.accounts import audit
from webapp.runs import locks
from webapp.runs.editing.changes import Actor, Change, to_json
from webapp.runs.models import Node, Run
from webapp.runs.signals import history_changed, machine_corrected

FIELDS = ("instance_type", "provider", "region", "purchase_option")
FOLLOWERS = {"instance_type": "service", "region": "zone"}
"""Corrected field -> another field whose value from the agent no longer applies."""
MOST_SUGGESTIONS = 3
LEAST_ALIKE = 0.75
"""The lowest `difflib` ratio of a suggestion. One wrong letter in `c5.large` has 0.88, two have
0.75."""

Said = Mapping[str, str]


class UnpricedMachineError(Exception):
    """No price is known for the type, and it may be a mistake; nothing was changed.

    Attributes:
        suggestions: types with a similar name, the most similar first.
    """

    def __init__(self, instance_type: str, suggestions: list[str]) -> None:
        super().__init__(f"No price is known for {instance_type} as entered.")
        self.instance_type = instance_type
        self.suggestions = suggestions


@transaction.atomic
def correct_machines(
    run: Run,
    by: Actor,
    values: Said,
    node_number: int | None = None,
    is_confirmed: bool = False,
) -> Run:
    """Set the `FIELDS` in `values` on the run's nodes, or on one of them, and price the run again.
    The agent's values are kept. Setting a field to the agent's value removes the correction.

    Raises:
        UnpricedMachineError: unless `is_confirmed`, if the run would lose its price, or a type
            without a price is named nearly as another.
    """
    held = locks.run(run.pk)
    had_price = held.cost_usd is not None
    nodes = [node for node in nodes_of(held) if node_number in (None, node.number)]
    priced = _set_all(held, by, [(node, values) for node in nodes])
    named = values.get("instance_type", "")
    if priced.cost_usd is None and named and not is_confirmed:
        suggestions = similar_types(named)
        if had_price or suggestions:
            raise UnpricedMachineError(named, suggestions)
    return priced


def similar_types(name: str) -> list[str]:
    """Return the types that are named nearly like an unknown type, the most similar first."""
    known = catalogue()
    if name in known:
        return []
    return get_close_matches(name.strip().lower(), known, MOST_SUGGESTIONS, LEAST_ALIKE)


@transaction.atomic
def restore_agent_values(run: Run, by: Actor) -> Run:
    """Restore the agent's values on every machine."""
    held = locks.run(run.pk)
    return _set_all(held, by, [(node, declared_values(node)) for node in nodes_of(held)])


def nodes_of(run: Run) -> list[Node]:
    return list(Node.objects.filter(attempt__run=run).order_by("number"))


def declared_values(node: Node) -> dict[str, str]:
    """Return the agent's values of corrected fields."""
    return {field: node.declared[field] for field in FIELDS if field in node.declared}


def _set_all(run: Run, by: Actor, wanted: list[tuple[Node, Said]]) -> Run:
    before = [(node, _values(node)) for node, _ in wanted]
    for node, values in wanted:
        _set(node, values, by)
    change = _change(before)
    if not change:
        return run
    machine_corrected.send(sender=Run, run=run)
    priced = locks.run(run.pk)
    if priced.cost_usd != run.cost_usd:
        change["cost_usd"] = (run.cost_usd, priced.cost_usd)
    audit.record(run.workspace, by, "machine.corrected", str(run), to_json(change))
    history_changed.send(sender=Run, job=run.job, since=run.began_at)
    return priced


def _set(node: Node, values: Said, by: Actor) -> None:
    for field, value in _with_provider(node, values).items():
        _keep_declared(node, field)
        setattr(node, field, value)
        if value == node.declared[field]:
            _forget_correction(node, field)
    corrected: tuple[str, Any] = (audit.name_of(by), timezone.now())
    node.corrected_by, node.corrected_at = corrected if node.declared else ("", None)
    node.save()


def _with_provider(node: Node, values: Said) -> Said:
    """Return the values with the provider: the chosen one, else the one that offers the type, else
    the agent's.
    """
    if "instance_type" not in values and "provider" not in values:
        return values
    declared = node.declared.get("provider", node.provider)
    known = catalogue().get(values.get("instance_type", node.instance_type))
    chosen = values.get("provider") or (known.provider if known else declared)
    is_same = (chosen or DEFAULT_PROVIDER) == (declared or DEFAULT_PROVIDER)
    return {**values, "provider": declared if is_same else chosen}


def _keep_declared(node: Node, field: str) -> None:
    node.declared.setdefault(field, getattr(node, field))
    follower = FOLLOWERS.get(field)
    if follower is not None:
        node.declared.setdefault(follower, getattr(node, follower))
        setattr(node, follower, "")


def _forget_correction(node: Node, field: str) -> None:
    del node.declared[field]
    follower = FOLLOWERS.get(field)
    if follower is not None:
        setattr(node, follower, node.declared.pop(follower))


def _values(node: Node) -> dict[str, str]:
    return {field: getattr(node, field) for field in FIELDS}


def _change(before: list[tuple[Node, dict[str, str]]]) -> Change:
    """Return the values of all nodes; each distinct value once."""
    change: Change = {}
    for field in FIELDS:
        old = sorted({values[field] for _, values in before})
        new = sorted({getattr(node, field) for node, _ in before})
        if any(values[field] != getattr(node, field) for node, values in before):
            change[field] = (", ".join(old), ", ".join(new))
    return change
