"""The instance of a SageMaker training container, from its resource file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from trimtab.platforms.instance import Instance

_RESOURCES = Path("/opt/ml/input/config/resourceconfig.json")


def instance(environment: Mapping[str, str], resources: Path = _RESOURCES) -> Instance | None:
    """Return the instance; None outside of SageMaker, or if its file has another format.

    The container can.t know whether its job runs on spot capacity.
    """
    try:
        instance_type = json.loads(resources.read_bytes())["current_instance_type"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(instance_type, str):
        return None
    return Instance(
        provider="aws",
        service="sagemaker_training",
        region=_region(environment),
        instance_type=instance_type,
        owns_machine=True,
    )


def _region(environment: Mapping[str, str]) -> str:
    """Return the region of an ARN: arn:aws:sagemaker:us-east-1:..."""
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    arn = environment.get("TRAINING_JOB_ARN", "").split(":")
    return region or (arn[3] if len(arn) > 3 else "")
