"""A JSON Schema of what a PyTorchJob of Kubeflow's training operator may have.

Names and types are those of the models of `kubeflow-training` 1.9.4 on PyPI, which are made from
the operator's own OpenAPI description; the values of policies are those of its documentation:
https://www.kubeflow.org/docs/components/trainer/legacy-v1/reference/training-operator/
Pod templates and `metadata` are Kubernetes' own, and are held to its schemas. Metrics of
autoscaling are left out.
"""

from __future__ import annotations

from typing import Any

WHOLE, TEXT, TRUTH = {"type": "integer"}, {"type": "string"}, {"type": "boolean"}
COUNT = {"type": "integer", "minimum": 0}


def of(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """Return an object without any other field: the API server drops those, or refuses them."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


REPLICA = of(
    ("template",),
    replicas=COUNT,
    restartPolicy={"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
    template={"type": "object"},
)
SCHEDULING = of(
    minAvailable=COUNT,
    minResources={"type": "object"},
    priorityClass=TEXT,
    queue=TEXT,
    scheduleTimeoutSeconds=COUNT,
)
RUN = of(
    activeDeadlineSeconds=COUNT,
    backoffLimit=COUNT,
    cleanPodPolicy={"enum": ["All", "Running", "None"]},
    managedBy=TEXT,
    schedulingPolicy=SCHEDULING,
    suspend=TRUTH,
    ttlSecondsAfterFinished=COUNT,
)
ELASTIC = of(
    maxReplicas=COUNT,
    maxRestarts=COUNT,
    minReplicas=COUNT,
    nProcPerNode=COUNT,
    rdzvBackend=TEXT,
    rdzvConf={"type": "array", "items": of(("key", "value"), key=TEXT, value=TEXT)},
    rdzvHost=TEXT,
    rdzvId=TEXT,
    rdzvPort=WHOLE,
    standalone=TRUTH,
)
SCHEMA = of(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "kubeflow.org/v1"},
    kind={"const": "PyTorchJob"},
    metadata={"type": "object"},
    spec=of(
        ("pytorchReplicaSpecs",),
        elasticPolicy=ELASTIC,
        # A text since 1.7: `auto`, `cpu`, `gpu`, or a number.
        nprocPerNode={"type": "string", "pattern": "^(auto|cpu|gpu|[1-9][0-9]*)$"},
        pytorchReplicaSpecs=of(Master=REPLICA, Worker=REPLICA),
        runPolicy=RUN,
    ),
)
