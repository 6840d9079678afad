"""Answers what a finished run would take and cost if it were run, bought or placed in another
way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.utils import timezone

from advisor.advice.purchase import checkpoint_seconds
from advisor.pricing.machine import InstanceType
from advisor.recommend import with_gpus
from advisor.sizing.candidates import Candidate
from advisor.sizing.demand import PRESETS, Demand, demand_of, missing_for_demand
from advisor.sizing.other_gpus import rung_of
from advisor.whatif import WhatIfAnswer, WhatIfQuestion, what_if
from webapp.advice.selectors.checked import judgement_from_row
from webapp.advice.selectors.speed_evidence import evidence_from
from webapp.analysis.models import Judgement
from webapp.analysis.successive import circumstances
from webapp.measurements.selectors.evidence import evidence_of
from webapp.prices import scope as prices
from webapp.prices.book import price_book
from webapp.prices.machines import catalogue_for
from webapp.runs.history import facts
from webapp.runs.models import Node, Run

MOST_REGIONS = 5


class UnanswerableError(ValueError):
    """Raised when the question can't be answered: `field` of the question, and the `fix`."""

    def __init__(self, detail: str, field: str, fix: str) -> None:
        super().__init__(detail)
        self.field, self.fix = field, fix


@dataclass(frozen=True)
class WhatIf:
    """The answer, with what is known of the run's speed."""

    answer: WhatIfAnswer
    demand: Demand
    machine: InstanceType
    """The run's machine."""
    present: Candidate | None
    """The machines of the run, bought as it was; None if its region or option wasn't asked for."""

    def rung(self, candidate: Candidate) -> str:
        """Return how the speed on the candidate is known."""
        return rung_of(self.demand, self.machine, candidate.machine, candidate.node_count)


def what_if_of(run: Run, asked: WhatIfQuestion, takes_recorded_checkpoint: bool) -> WhatIf:
    """Answer the question from stored figures; no samples are read.

    Args:
        takes_recorded_checkpoint: the time that a checkpoint takes is the recorded one, if any.

    Raises:
        MissingError: too little is known of the run, or a region has no prices.
    """
    demand = _demand(run)
    catalogue = catalogue_for(run.workspace, demand.region, demand.provider)
    if demand.instance_type not in catalogue:
        detail = f"Insufficient data: the hardware of {demand.instance_type or 'it'} isn't known."
        raise UnanswerableError(detail, "run_id", "Declare or correct the run's instance type.")
    judged = [judgement_from_row(row) for row in Judgement.objects.filter(run=run)]
    evidence = evidence_from(run, evidence_of(run.job), demand)
    needed = replace(demand, machine_speeds=evidence.machines)
    used = with_gpus(needed, judged, catalogue, evidence, only_sure=False)
    if takes_recorded_checkpoint:
        asked = replace(asked, checkpoint_seconds=checkpoint_seconds(judged))
    fixed = circumstances.machine_work_of(run).fixed_seconds
    asked = replace(asked, fixed_seconds=fixed or 0.0)
    others, now = _others(run, demand, asked), timezone.now()
    options = asked.options or (demand.purchase_option,)
    answer = what_if(
        used,
        asked,
        price_book(
            run.workspace, {demand.region, *others}, now, {*options, demand.purchase_option}
        ),
        catalogue,
        now,
        PRESETS[run.workspace.preset],
        {region: catalogue_for(run.workspace, region, demand.provider) for region in others},
    )
    if all(each.usd_per_hour is None for each in answer.table):
        detail = f"No machine has a price for {', '.join(options)} in the asked regions."
        raise UnanswerableError(detail, "options", "Ask for on_demand, or enter your own rates.")
    return WhatIf(answer, used, catalogue[demand.instance_type], _present(answer, demand))


def _demand(run: Run) -> Demand:
    if run.is_probe or run.state != Run.FINISHED or run.duration is None:
        detail = "Insufficient data: the estimate needs a finished run that isn't a probe."
        raise UnanswerableError(detail, "run_id", "Name a finished run of the job.")
    nodes = [facts(node) for node in Node.objects.filter(attempt__run=run)]
    demand = demand_of(nodes, run.summary, run.duration.total_seconds(), run.began_at.date())
    if demand is None:
        why = " ".join(missing_for_demand(nodes, run.summary))
        raise UnanswerableError(f"Insufficient data. Missing: {why}", "run_id", "Name another run.")
    return demand


def _others(run: Run, demand: Demand, asked: WhatIfQuestion) -> list[str]:
    """Return the asked regions beside the run's."""
    others = [region for region in asked.regions if region != demand.region]
    known = prices.regions_of(run.workspace) if others else []
    missing = [region for region in others if region not in known]
    if missing:
        fix = f"Regions with prices: {', '.join(known)}."
        raise UnanswerableError(f"There is no price in {missing[0]!r}.", "regions", fix)
    return others


def _present(answer: WhatIfAnswer, demand: Demand) -> Candidate | None:
    wanted = (demand.instance_type, demand.node_count, demand.region, demand.purchase_option)
    for each in answer.table:
        if wanted == (each.instance_type, each.node_count, each.region, each.purchase_option):
            return each
    return None
