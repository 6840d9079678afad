"""The rank of this process, from its launcher's variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

_MOST = 10_000_000
_RANKS = (
    "RANK",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "HOROVOD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
)
_LOCAL_RANKS = (
    "LOCAL_RANK",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "HOROVOD_LOCAL_RANK",
    "MPI_LOCALRANKID",
)
_RESTARTS = ("TORCHELASTIC_RESTART_COUNT",)
_WORLD_SIZES = (
    "WORLD_SIZE",
    "SLURM_NTASKS",
    "OMPI_COMM_WORLD_SIZE",
    "HOROVOD_SIZE",
    "PMI_SIZE",
)


@dataclass(frozen=True)
class ProcessRank:
    """Rank of a process, 0 of 1 if no launcher set anything."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    restarts: int = 0
    """The number of times its launcher has restarted it on this machine."""


def process_rank(environment: Mapping[str, str]) -> ProcessRank:
    """Return the rank by torchrun, Slurm, Open MPI, Horovod or MPICH, or else SageMaker's list of
    hosts.
    """
    rank = _first(environment, _RANKS)
    if rank is None:
        return _of_sagemaker(environment)
    local = _first(environment, _LOCAL_RANKS)
    size = _first(environment, _WORLD_SIZES)
    restarts = _first(environment, _RESTARTS)
    return ProcessRank(rank, local or 0, max(size or 1, rank + 1), restarts or 0)


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        if environment.get(name, "").isdecimal():
            return min(int(environment[name]), _MOST)
    return None


def _of_sagemaker(environment: Mapping[str, str]) -> ProcessRank:
    """Return the rank in SageMaker's list of hosts: without torchrun or MPI, it starts one process
    per host.
    """
    try:
        hosts = json.loads(environment.get("SM_HOSTS", "[]"))
        return ProcessRank(hosts.index(environment.get("SM_CURRENT_HOST", "")), 0, len(hosts))
    except (ValueError, AttributeError):
        return ProcessRank()
