"""One block to paste for each scheduler."""

from __future__ import annotations

import ast
import shlex
import subprocess

import pytest
import yaml

from advisor.advice.launching import SCHEDULERS, Launch, launches, write_block

NOW = {"instance_type": "c5.large", "node_count": 3, "purchase_option": "on_demand"}


@pytest.mark.parametrize(
    ("change", "now", "wanted"),
    [
        ({"instance_type": "g5.xlarge", "node_count": 1}, NOW, [Launch("g5.xlarge", 1)]),
        ({"instance_type": "g5.xlarge"}, NOW, [Launch("g5.xlarge", 3)]),
        (
            {"instance_type": "g5.xlarge", "node_count": 1},
            NOW | {"purchase_option": "spot"},
            [Launch("g5.xlarge", 1, is_spot=True)],
        ),
        ({"purchase_option": "spot"}, NOW, [Launch("c5.large", 3, is_spot=True)]),
        (
            {"probe": ["a", "b"]},
            NOW,
            [Launch("a", 3, is_probe=True), Launch("b", 3, is_probe=True)],
        ),
        ({"purchase_option": "spot"}, {}, []),
        ({"purchase_option": "reserved", "machines": 2}, NOW, []),
        ({"num_workers": 4}, NOW, []),
    ],
)
def test_it_knows_which_machines_a_change_asks_for(change, now, wanted):
    assert launches(change, now) == wanted


@pytest.mark.parametrize("is_probe", [False, True])
@pytest.mark.parametrize("is_spot", [False, True])
def test_a_shell_understands_the_blocks_of_aws_and_slurm(is_spot, is_probe):
    launch = Launch("g5.xlarge", 2, is_spot, is_probe)
    aws, slurm = (write_block(name, [launch]) for name in ("aws", "slurm"))
    for block in (aws, slurm):
        assert subprocess.run(["bash", "-n"], input=block, text=True, check=False).returncode == 0
    words = shlex.split(slurm.replace("\\\n", ""), comments=True)
    assert words[:3] == ["sbatch", "--nodes=2", "--constraint=g5.xlarge"]
    assert ("--time=30" in words) is is_probe
    assert words[-1].startswith("--wrap=srun trimtab ")
    assert "--instance-type g5.xlarge --count 2" in aws
    assert ("MarketType=spot" in aws) is is_spot
    assert ("timeout 1800" in aws) is is_probe
    assert ("probe --steps" in aws) is is_probe


@pytest.mark.parametrize("is_spot", [False, True])
def test_the_block_of_kubernetes_is_a_manifest(is_spot):
    spec = yaml.safe_load(write_block("kubernetes", [Launch("g5.xlarge", 2, is_spot, True)]))[
        "spec"
    ]
    assert (spec["parallelism"], spec["completions"], spec["activeDeadlineSeconds"]) == (2, 2, 1800)
    pod = spec["template"]["spec"]
    selected = pod["nodeSelector"]
    assert selected["node.kubernetes.io/instance-type"] == "g5.xlarge"
    assert ("karpenter.sh/capacity-type" in selected) is is_spot
    assert pod["containers"][0]["command"][:2] == ["trimtab", "probe"]


def test_machines_of_sagemaker_are_set_in_the_estimator():
    call = ast.parse(write_block("aws", [Launch("ml.g5.xlarge", 2)])).body[0].value  # type: ignore[attr-defined]
    values = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    assert values == {"instance_type": "ml.g5.xlarge", "instance_count": 2}
    for elsewhere in ("slurm", "kubernetes"):
        assert "ml." not in write_block(elsewhere, [Launch("ml.g5.xlarge", 2)])


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_it_keeps_what_holds_everywhere_and_starts_each_machine(scheduler):
    steps = ["Check that it is still offered: aws ec2 ...", "Slurm: srun -N 1"]
    block = write_block(scheduler, [Launch("a1.large", 1), Launch("b1.large", 1)], steps)
    assert block.startswith("# Check that it is still offered: aws ec2 ...\n")
    assert "Slurm: srun" not in block
    assert block.index("a1.large") < block.index("b1.large")
