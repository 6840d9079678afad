"""Evidence of the speed on other machines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.sizing.demand import Demand
from advisor.sizing.other_gpus import SpeedEvidence
from advisor.speed.decision import MOST_PROBES
from advisor.speed.knowledge import Knowledge
from webapp.measurements.selectors.evidence import (
    MeasurementEvidence,
    history_of,
    machine_speeds,
    measurements_of,
)
from webapp.prices.machines import catalogue_in
from webapp.runs.models import Run


def evidence_from(run: Run, ran: Sequence[MeasurementEvidence], demand: Demand) -> SpeedEvidence:
    """Return the evidence from what is known of the run's job, and what was measured of other
    jobs.
    """
    machines = machine_speeds(ran, demand.instance_type)
    if not demand.gpus:
        return SpeedEvidence(machines=machines)
    known = measurements_of(ran)
    machine = catalogue_in(demand.region, demand.provider).get(demand.instance_type)
    is_alike = machine is not None and bool(known) and known[0].gpu == machine.gpu_key
    probed = {each.gpu for each in known if each.probe_steps is not None}
    return SpeedEvidence(
        measured=tuple(known) if is_alike else (),
        knowledge=Knowledge(history_of(run.workspace, without=run.job)),
        rounds=math.ceil(len(probed) / MOST_PROBES),
        machines=machines,
    )
