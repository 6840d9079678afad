"""Figures in Prometheus's text format.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[str, Mapping[str, str], float]
"""A gauge, its labels, and its value."""


def text(helps: Mapping[str, str], samples: Iterable[Sample]) -> str:
    """Return each gauge of `helps`, in this order, with its samples."""
    every = list(samples)
    lines = []
    for name, words in helps.items():
        lines += [f"# HELP {name} {words}", f"# TYPE {name} gauge"]
        lines += [_line(name, labels, value) for own, labels, value in every if own == name]
    return "\n".join(lines) + "\n"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(said)}"' for label, said in labels.items())
    return f"{name}{{{inside}}} {value:.10g}" if inside else f"{name} {value:.10g}"


def _escaped(said: str) -> str:
    """Escape a label's value. Names come from people and programs: none may end its label, or its
    line.
    """
    return said.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
