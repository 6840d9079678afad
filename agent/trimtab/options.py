"""The options of a run, from the command line and then the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from trimtab.directives import profile_request
from trimtab.identity import ServiceAccess, pairs, shorten_name
from trimtab.redaction import redact_command
from trimtab.settings import saved_server
from trimtab.wire import NodeFacts, Probe

Scalar = Union[str, int, float, bool]

_NODE_TEXTS = ("instance_type", "region", "zone", "provider", "service", "purchase_option")
"""Each is an option `--name-like-this` and a variable TRIMTAB_NAME_LIKE_THIS."""


@dataclass(frozen=True)
class Options:
    """The options of a run; empty means not set."""

    server: ServiceAccess = field(default_factory=ServiceAccess)
    job: str = ""
    owner: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Scalar] = field(default_factory=dict)
    training: str = ""
    workload: dict[str, str] = field(default_factory=dict)
    node: dict[str, str] = field(default_factory=dict)
    owns_machine: bool = False
    ask_metadata: bool = True
    """True if the cloud's metadata service may be queried."""
    interval_seconds: float = 0.5
    allow_stop: bool = False
    """True if a rule may end the training."""
    profile: dict[str, Any] | None = None
    """The steps to profile, as `directives.profile_request` gives them."""
    probe: Probe | None = None
    """The probe; None for an ordinary run."""

    def apply_to(self, facts: NodeFacts) -> None:
        for name, value in self.node.items():
            setattr(facts, name, value)
        facts.owns_machine = self.owns_machine


def server(url: str | None, token: str | None, environment: Mapping[str, str]) -> ServiceAccess:
    """Return the service from the options, else the environment, else as saved by `trimtab init`.

    A saved token is used for the saved URL only.
    """
    chosen = (url or environment.get("TRIMTAB_URL", "")).strip().rstrip("/")
    secret = (token or environment.get("TRIMTAB_TOKEN", "")).strip()
    if not chosen or not secret:
        known = saved_server()
        chosen = chosen or known.url
        secret = secret or (known.token if chosen == known.url else "")
    return ServiceAccess(chosen, secret)


def node_texts(said: Mapping[str, str | None], environment: Mapping[str, str]) -> dict[str, str]:
    texts = {
        name: said.get(name) or environment.get(f"TRIMTAB_{name.upper()}", "")
        for name in _NODE_TEXTS
    }
    # Providers are named in lower case, as `--provider` makes them.
    texts["provider"] = texts["provider"].lower()
    return {name: shorten_name(value.strip()) for name, value in texts.items() if value}


def tags(said: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    values = pairs(environment.get("TRIMTAB_TAGS", ""))
    for word in said:
        values |= pairs(word)
    return values


def profile_steps(text: str) -> dict[str, Any]:
    """Parse `50:55`, which means the steps 50 to 54 of rank 0, counted from 1.

    Raises:
        ValueError: not two whole numbers, or too many steps.
    """
    first, _, after = text.partition(":")
    return profile_request({"first_step": int(first), "steps": int(after) - int(first)})


def parameters(said: Sequence[str], secrets: Sequence[str] = ()) -> dict[str, Scalar]:
    """Parse `--param k=v` as numbers, booleans or text; secrets are redacted."""
    values: dict[str, Scalar] = {}
    for word in redact_command(list(said), secrets):
        key, _, value = word.partition("=")
        values[shorten_name(key)] = _scalar(value)
    return values


def script_parameters(values: Mapping[str, Any], secrets: Sequence[str]) -> dict[str, Scalar]:
    """Return parameters that the script set, read like `--param`; lists and objects become text."""
    return parameters([f"{key}={value}" for key, value in values.items()], secrets)


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
