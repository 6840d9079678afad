"""A rank that the others wait for inside of their steps, in a script that tells nothing."""

from __future__ import annotations

from tests.agent.torch_python import NEEDS_TORCH, PYTHON

pytestmark = NEEDS_TORCH

SCRIPT = """
import atexit, os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(320):
    time.sleep(0.01 * (1 + dist.get_rank()))
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
atexit._run_exitfuncs()
os._exit(0)
"""
"""Ends without Python's own clean-up: Gloo's threads outlive their group, and one that still drops
the last gradients then aborts the process (PyTorch's issue 190489)."""


def test_ddps_records_tell_how_long_each_rank_waited(trimtab, online, service, tmp_path):
    """The first rank needs 10 ms of each step and waits 10 ms for the second one."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    launcher = [PYTHON, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = trimtab(online, "run", "--", *launcher, script)
    assert done.returncode == 0, done.stderr
    waits: dict[int, list[float]] = {0: [], 1: []}
    for event in service.events("ddp"):
        waits[event.data["rank"]].append(event.data["communication_seconds"])
        assert event.data["iteration"] > 1
    assert min(len(each) for each in waits.values()) >= 3
    middle = {rank: sorted(each)[len(each) // 2] for rank, each in waits.items()}
    assert middle[0] > middle[1] + 0.005
