"""What the user says about a run: options of the command line first, then the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.identity import Server, pairs, shortened
from trimtab.redaction import redacted
from trimtab.wire import NodeFacts

Scalar = str | int | float | bool

_NODE_TEXTS = ("instance_type", "region", "zone", "provider", "service", "purchase_option")
"""Each is `--name-like-this` and TRIMTAB_NAME_LIKE_THIS."""


@dataclass(frozen=True)
class Options:
    """Everything said; empty is not said."""

    server: Server = field(default_factory=Server)
    job: str = ""
    owner: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Scalar] = field(default_factory=dict)
    workload: dict[str, str] = field(default_factory=dict)
    node: dict[str, str] = field(default_factory=dict)
    owns_machine: bool = False
    interval_seconds: float = 0.5

    def apply_to(self, facts: NodeFacts) -> None:
        for name, value in self.node.items():
            setattr(facts, name, value)
        facts.owns_machine = self.owns_machine


def server(url: str | None, token: str | None, environment: Mapping[str, str]) -> Server:
    chosen = url or environment.get("TRIMTAB_URL", "")
    secret = token or environment.get("TRIMTAB_TOKEN", "")
    return Server(chosen.strip().rstrip("/"), secret.strip())


def node_texts(said: Mapping[str, str | None], environment: Mapping[str, str]) -> dict[str, str]:
    found = {
        name: said.get(name) or environment.get(f"TRIMTAB_{name.upper()}", "")
        for name in _NODE_TEXTS
    }
    return {name: shortened(value.strip()) for name, value in found.items() if value}


def tags(said: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    found = pairs(environment.get("TRIMTAB_TAGS", ""))
    for word in said:
        found |= pairs(word)
    return found


def parameters(said: Sequence[str]) -> dict[str, Scalar]:
    """`--param k=v` as numbers and booleans where they are; secrets are taken out."""
    found: dict[str, Scalar] = {}
    for word in redacted(list(said)):
        key, _, value = word.partition("=")
        found[shortened(key)] = _scalar(value)
    return found


def _scalar(value: str) -> Scalar:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        return number if abs(number) < 2**53 else value  # also leaves NaN and infinity as text
    return value[:2_000]
