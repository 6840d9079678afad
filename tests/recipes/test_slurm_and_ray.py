"""Batch scripts under bash, with Slurm's variables and a `srun` that starts two nodes' tasks."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from trimtab.identity import ServiceAccess, run_id

from tests.agent.conftest import TOKEN
from tests.recipes.conftest import EXAMPLES, STAND_INS, Place, states, steps


@pytest.fixture
def signed_in(environment, service) -> dict[str, str]:
    """`trimtab init` has saved the service; nothing is in the environment."""
    saved = Path(environment["XDG_CONFIG_HOME"]) / "trimtab" / "service.json"
    saved.parent.mkdir(parents=True)
    saved.write_text(json.dumps({"url": service.url, "token": TOKEN}))
    return environment


OPTIONS = {
    *("job-name", "nodes", "ntasks-per-node", "gpus-per-node", "cpus-per-task", "time", "requeue"),
}
"""The options of `sbatch`, which takes no others here."""


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.sbatch")), ids=lambda path: path.name)
def test_sbatch_takes_its_options(path):
    lines = path.read_text().splitlines()
    asked = [line for line in lines if line.startswith("#SBATCH")]
    options = dict(re.fullmatch(r"#SBATCH --([\w-]+)(?:=(\S+))?", line).groups() for line in asked)
    assert options.keys() <= OPTIONS
    assert lines[0] == "#!/bin/bash"
    assert lines[1 : 1 + len(asked)] == asked, "sbatch stops at the first command"
    assert re.fullmatch(r"\d\d:\d\d:\d\d", options["time"])
    # A run that Slurm may start again is continued; a cluster of Ray isn't.
    assert ("requeue" in options) == (path.parent.name == "slurm")
    cores, tasks = int(options["cpus-per-task"]), int(options["ntasks-per-node"])
    assert cores * tasks == 64
    assert tasks in (1, int(options["gpus-per-node"]))


def slurm(script: Path, tasks_per_node: int) -> dict[str, str]:
    """Return what Slurm sets for `sbatch --ntasks-per-node=N`, by the script's own lines."""
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", script.read_text(), re.MULTILINE))
    assert asked["nodes"] == "2"
    return {
        "USER": "ada",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NAME": asked["job-name"],
        "SLURM_CLUSTER_NAME": "green",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_ACCOUNT": "vision",
        "SLURM_JOB_NUM_NODES": asked["nodes"],
        "SLURM_JOB_NODELIST": "node-[0-1]",
        "SLURM_NTASKS_PER_NODE": str(tasks_per_node),
        "SLURM_GPUS_ON_NODE": "2",
    }


@pytest.mark.parametrize(("script", "tasks"), [("train.sbatch", 2), ("torchrun.sbatch", 1)])
def test_the_tasks_of_both_nodes_are_one_run(place: Place, signed_in, service, script, tasks):
    place.copy("slurm")
    place.stand_in("srun", "scontrol", "torchrun")
    job = slurm(place.folder / script, tasks)
    assert place.run(signed_in | job, "bash", script) == 0
    server = ServiceAccess(service.url, TOKEN)
    assert {d.run_id for d in service.declarations} == {run_id(server, {"SLURM_JOB_ID": "4711"})}
    assert {d.node.machine_id for d in service.declarations} == {"node-0", "node-1"}
    declared = service.declarations[-1]
    assert (declared.job, declared.owner, declared.requeue) == ("digits", "ada", "slurm/green/4711")
    known = {"slurm_partition": "gpu", "slurm_account": "vision", "project": "vision"}
    assert declared.tags == known
    assert steps(service) == dict.fromkeys(range(4), 10)
    assert states(service) == ["finished"] * 2


def test_each_task_knows_where_the_first_one_is(place: Place, signed_in):
    place.copy("slurm")
    place.stand_in("srun", "scontrol")
    seen = "import os; print('rank 0 at', os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'])"
    (place.folder / "train.py").write_text(seen)
    job = slurm(place.folder / "train.sbatch", 1)
    process = place.start(signed_in | job, "bash", "train.sbatch")
    assert process.communicate(timeout=120)[0].count("rank 0 at node-0 29500") == 2


def test_a_requeued_job_is_another_attempt(place: Place, signed_in, service):
    place.copy("slurm")
    place.stand_in("srun", "scontrol")
    job = slurm(place.folder / "train.sbatch", 1) | {"SLURM_RESTART_COUNT": "1"}
    place.run(signed_in | job, "bash", "train.sbatch")
    assert {d.attempt for d in service.declarations} == {1}


def ray(place: Place) -> dict[str, str]:
    shared = place.folder / "ray-shared"
    shared.mkdir()
    packages = f"{STAND_INS / 'packages'}{os.pathsep}{place.folder}"
    return {"RAY_SHARED": str(shared), "PYTHONPATH": packages, "WORKERS": "2"}


def test_workers_of_a_ray_cluster_within_the_run_are_measured(place: Place, signed_in, service):
    """The workers are children of each node's daemon, and start after the agent."""
    place.copy("ray")
    place.stand_in("srun", "scontrol", "ray")
    script = place.folder / "cluster.sbatch"
    text = script.read_text()
    assert "export WORKERS=16\n" in text
    script.write_text(text.replace("WORKERS=16", "WORKERS=2"))
    assert place.run(signed_in | slurm(script, 1) | ray(place), "bash", script.name) == 0
    assert len({d.run_id for d in service.declarations}) == 1
    assert steps(service) == {0: 10, 1: 10}
    nodes = {segment.machine_id for segment in service.segments if segment.steps}
    assert nodes == {"node-0", "node-1"}


def test_workers_that_the_driver_s_own_ray_starts_are_measured(place: Place, online, service):
    place.copy("ray")
    command = ["trimtab", "run", "--", "python", "driver.py"]
    assert place.run(online | ray(place), *command) == 0
    assert steps(service) == {0: 10, 1: 10}
