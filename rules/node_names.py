"""Names of nodes in sentences: a finding calls a node what charts and tables call it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

_NODE_KEY = re.compile(r"(?<![\w.-])node-\d+(?![\w-])")
_WORD = re.compile(r"[\w.-]+")


def mentions_node(text: str) -> bool:
    """Return whether the text holds the key of a node."""
    return _NODE_KEY.search(text) is not None


def name_nodes(text: str, names: Mapping[str, str]) -> str:
    """Return the text with each key of a node (`node-8`) replaced by the node's name.

    Args:
        names: by key. Other keys stay.
    """
    return _NODE_KEY.sub(lambda found: names.get(found[0], found[0]), text)


def nodes_named_in(texts: Iterable[str], names: Mapping[str, str]) -> set[str]:
    """Return the keys of the nodes that the texts mention, by key or by name."""
    keys = {name: key for key, name in names.items()} | {key: key for key in names}
    words = {word.rstrip(".") for text in texts for word in _WORD.findall(text)}
    return {keys[word] for word in words & keys.keys()}


def distinct_names(hostnames: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return a name for each node: its hostname, with its key if another machine has the same
    hostname; the key if it has none.

    Args:
        hostnames: by key, hostname and machine id. A machine may be a node of several attempts.
    """
    machines = Counter(hostname for hostname, _ in set(hostnames.values()))
    return {
        key: f"{hostname}-{key}" if machines[hostname] > 1 else hostname
        for key, (hostname, _) in hostnames.items()
        if hostname
    } | {key: key for key, (hostname, _) in hostnames.items() if not hostname}
