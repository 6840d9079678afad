"""A run of 64 nodes of 8 GPUs: rows and samples as the service leaves them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from bench.charts import GPUS, StoredRuns

NODES, HOURS, USD = 64, 1, Decimal("52.43")
"""The nodes, the hours that they ran, and what each cost."""
LABELS = {"effective": 0.6, "data_stall": 0.2, "gpu_idle": 0.1, "initialise": 0.1}
"""The shares of each GPU's time."""
OF_GPUS = ("busy_pct", "seen_seconds", "busy_seconds", "tensor_pct")
"""The figures that rules store of each GPU."""


def make_cluster_run(job: Any) -> Any:
    """Make a run whose nodes have copies of the first one's samples."""
    stored = StoredRuns(job)
    run = stored.stored_run(HOURS)
    job.save()
    nodes = _nodes(run)
    _copy_chunks(nodes, stored.store)
    _add_rows(run, nodes)
    return run


def _nodes(run: Any) -> list[Any]:
    from webapp.runs.models import Node

    [first] = Node.objects.filter(attempt__run=run)
    names = {number: f"training-{number}" for number in range(2, NODES + 1)}
    Node.objects.bulk_create(
        Node(
            attempt=first.attempt,
            number=number,
            machine_id=name,
            hostname=name,
            gpus=first.gpus,
            memory_bytes=first.memory_bytes,
        )
        for number, name in names.items()
    )
    return list(Node.objects.filter(attempt__run=run).order_by("number"))


def _copy_chunks(nodes: list[Any], store: Any) -> None:
    from webapp.runs.models import Chunk

    rows = list(Chunk.objects.filter(node=nodes[0], replaced_at=None))
    bodies = {row.object_key: store.get(row.object_key) for row in rows}
    for node in nodes[1:]:
        for row, (key, body) in zip(rows, bodies.items(), strict=True):
            row.pk, row.node, row.object_key = None, node, f"{key}-{node.number}"
            store.put(row.object_key, body)
        Chunk.objects.bulk_create(rows)


def _add_rows(run: Any, nodes: list[Any]) -> None:
    from advisor.run_summary import from_document
    from bench.run_rows import summary
    from webapp.analysis.models import Analysis, CostPart, LedgerEntry

    held = HOURS * 3600 * 10**6
    run.cost_usd, run.summary = NODES * USD, from_document(summary())
    run.save()
    CostPart.objects.bulk_create(
        CostPart(run=run, node=node, day=run.started_at.date(), microseconds=held, usd=USD)
        for node in nodes
    )
    LedgerEntry.objects.bulk_create(
        LedgerEntry(
            run=run,
            node=node,
            gpu=gpu,
            label=label,
            microseconds=round(share * held),
            usd=USD * Decimal(str(share)) / GPUS,
        )
        for node in nodes
        for gpu in range(GPUS)
        for label, share in LABELS.items()
    )
    _judge(run, nodes)
    Analysis.objects.create(run=run, wanted=9, done=9, is_final=True)


def _judge(run: Any, nodes: list[Any]) -> None:
    """Judge the run by every rule; some name a node, and as many store figures of each GPU as do
    of a real run.
    """
    from rules.registry import all_rules
    from webapp.analysis.models import Judgement

    gpus = [f"{node.key}/gpu{gpu}" for node in nodes for gpu in range(GPUS)]
    figures = {f"{name}@{gpu}": 61.25 for name in OF_GPUS for gpu in gpus}
    Judgement.objects.bulk_create(
        Judgement(
            run=run,
            rule=rule,
            rule_version=1,
            values_hash="0" * 16,
            values={},
            numbers={"values": figures if place % 5 == 0 else {}, "windows": []},
            state="fired" if rule == "load_balancing" else "passed",
            severity="medium",
            summary=f"{nodes[-1]}/gpu0 idles.",
        )
        for place, rule in enumerate(all_rules())
    )
