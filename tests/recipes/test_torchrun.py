"""torchrun in front of a script: a stand-in for several machines, the real one for one machine."""

from __future__ import annotations

import pytest

from tests.agent.torch_python import NEEDS_TORCH, PYTHON
from tests.recipes.conftest import TRAINING, Place, steps

TORCH_TRAINING = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_two_machines_with_the_same_name_are_one_run(place: Place, online, service, tmp_path):
    place.copy("torchrun")
    place.stand_in("torchrun")
    told = "import os\nprint('rendezvous', os.environ['TORCHELASTIC_RUN_ID'])\n"
    (place.folder / "train.py").write_text(told + TRAINING)
    shared = {"TRIMTAB_RUN": "digits-1", "NODES": "2", "PROCESSES": "1", "HEAD": "node-0"}
    machines = []
    for node in ("0", "1"):
        own = {"TRIMTAB_MACHINE_ID": f"node-{node}", "TMPDIR": str(tmp_path / f"node-{node}")}
        (tmp_path / f"node-{node}").mkdir()
        own["PET_NODE_RANK"] = node  # the stand-in has no rendezvous
        machines.append(place.start(online | shared | own, "./train.sh"))
    for machine in machines:
        output = machine.communicate(timeout=60)[0]
        assert machine.returncode == 0, output
        assert "rendezvous digits-1\n" in output
    assert len({d.run_id for d in service.declarations}) == 1
    assert {d.node.machine_id for d in service.declarations} == {"node-0", "node-1"}
    assert {d.job for d in service.declarations} == {"digits"}
    assert steps(service) == {0: 10, 1: 10}


def test_several_machines_need_a_name_for_the_run(place: Place, online, service):
    place.copy("torchrun")
    several = {"NODES": "2", "PROCESSES": "1", "HEAD": "node-0"}
    assert place.run(online | several, "./train.sh") != 0
    assert service.declarations == []


@pytest.mark.torch
@NEEDS_TORCH[1]
def test_the_real_torchrun_has_its_ranks_recorded(place: Place, online, service):
    place.copy("torchrun")
    place.program("torchrun", f'#!/bin/sh\nexec {PYTHON} -m torch.distributed.run "$@"\n')
    (place.folder / "train.py").write_text(TORCH_TRAINING)
    assert place.run(online | {"PROCESSES": "2"}, "./train.sh") == 0
    assert steps(service) == {0: 9, 1: 9}  # where the first one began isn't known
