"""One run, analysed: rows and samples in, pure calls, an outcome that can be saved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings

from advisor.cost import NodeUse, RunCost, cost_of_run
from advisor.figures import Figures, figures
from advisor.pricing.book import PriceBook
from advisor.recommend import Recommendation
from advisor.store.frames import load_frame
from advisor.store.objects import open_store
from rules import engine
from rules.frame import RunFrame
from webapp.analysis import pricing, queue, saving
from webapp.analysis.advice import recommendations
from webapp.prices.book import price_book
from webapp.runs import progress
from webapp.runs.history import node_histories
from webapp.runs.models import Node, Run


@dataclass(frozen=True)
class Outcome:
    """What an analysis found. `save` writes it; the caller holds the transaction."""

    run: Run
    is_final: bool
    judgements: list[engine.Judgement]
    cost: RunCost
    figures: Figures
    recommendations: list[Recommendation]
    unreadable: tuple[str, ...]

    def save(self) -> None:
        saving.save(self)


def evaluate(held: queue.Claim) -> Outcome:
    """Analyse a run as far as it has arrived. Writes nothing but the lease."""
    run = Run.objects.select_related("job", "workspace").get(pk=held.run_id)
    progress.derive(run)
    is_final = run.has_ended and progress.missing_segments(run) == 0
    frame, unreadable = _frame(run, is_final)
    queue.renew(held)
    judgements = engine.evaluate(frame, {})
    nodes = list(Node.objects.filter(attempt__run=run).prefetch_related("sessions"))
    book = price_book(run.workspace, {node.region for node in nodes})
    cost = cost_of_run([pricing.node_use(node) for node in nodes], book)
    measured = figures(frame)
    queue.renew(held)
    advice = recommendations(run, nodes, judgements, cost, measured, book)
    return Outcome(run, is_final, judgements, cost, measured, advice, unreadable)
