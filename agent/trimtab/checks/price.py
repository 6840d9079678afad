"""Checks whether the agent knows the instance type, which the run's price depends on."""

from __future__ import annotations

import os

from trimtab import platforms
from trimtab.checks.check import Check, CheckState
from trimtab.options import Options

_LOST = "the run's cost, unless the service knows this machine's price"
_DECLARE = "use --instance-type, --region and --provider, or TRIMTAB_INSTANCE_TYPE and so on"
_HOPS = (
    "; for a container on EC2 run `aws ec2 modify-instance-metadata-options --instance-id ..."
    " --http-put-response-hop-limit 2`"
)


def price(options: Options) -> Check:
    declared = options.node.get("instance_type")
    if declared:
        where = options.node.get("region", "no region")
        return Check("price", CheckState.FINE, f"{declared}, {where}, as declared")
    try:
        instance = platforms.detect(os.environ) if options.ask_metadata else None
    except platforms.MetadataError as error:
        return Check("price", CheckState.MISSING, str(error), _LOST, _DECLARE + _hops(str(error)))
    if instance is None or not instance.instance_type:
        seen = "no metadata service answers" if options.ask_metadata else "machine detection is off"
        return Check("price", CheckState.MISSING, seen, _LOST, _DECLARE)
    where = f"{instance.provider} {instance.service}, {instance.region or 'no region'}"
    bought = instance.purchase_option.replace("_", " ")
    return Check(
        "price", CheckState.FINE, f"{instance.instance_type}, {where}{bought and ', ' + bought}"
    )


def _hops(problem: str) -> str:
    return _HOPS if problem.startswith("/latest/") else ""
