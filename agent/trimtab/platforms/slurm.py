"""Reads what Slurm allocated to the job on this node: cores and memory; partition and account."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.identity import shorten_name
from trimtab.wire import NodeFacts

_MIB = 2**20


def limit(facts: NodeFacts, environment: Mapping[str, str]) -> None:
    """Limit the facts to the job's. A cluster that doesn't pin jobs to their cores still allocates
    cores by number.
    """
    cpus = _number(environment, "SLURM_CPUS_ON_NODE")
    if cpus:
        facts.effective_cpus = min(facts.effective_cpus or cpus, float(cpus))
    memory = _number(environment, "SLURM_MEM_PER_NODE")
    memory = memory or cpus * _number(environment, "SLURM_MEM_PER_CPU")
    if memory:
        known = facts.effective_memory_bytes or memory * _MIB
        facts.effective_memory_bytes = min(known, memory * _MIB)


def tags(environment: Mapping[str, str]) -> dict[str, str]:
    """Return partition and account as tags, for grouping spend."""
    names = {"slurm_partition": "SLURM_JOB_PARTITION", "slurm_account": "SLURM_JOB_ACCOUNT"}
    values = {tag: environment.get(name, "").strip() for tag, name in names.items()}
    return {tag: shorten_name(value) for tag, value in values.items() if value}


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 12 else 0
