"""The parameters of a model, as the hook counts them in unmodified scripts."""

from __future__ import annotations

import tempfile

import pytest

from tests.agent.torch_models import MODELS
from tests.agent.torch_python import NEEDS_TORCH, PYTHON

pytestmark = NEEDS_TORCH

BLOCK = 4 * 24 + (24 * 72 + 72) + (24 * 24 + 24) + (24 * 96 + 96) + (96 * 24 + 24)
EMBEDDING = 64 * 24 + 32 * 24
GPT = EMBEDDING + 2 * BLOCK + 2 * 24
FORWARD = 516_096
"""The operations of a forward pass over two texts of eight tokens; see test_flops."""
SPLIT = 2 * 16 * 2 * 24 * 96
"""The operations of one of the two layers of each block that tensor parallelism splits."""
MLP = 16 * 32 + 32 + 32 * 4 + 4

CASES = (
    MODELS
    + """
def train(model, *optimizers, steps=3, of=lambda model: model(torch.randn(2, 16)).sum()):
    for _ in range(steps):
        for optimizer in optimizers:
            of(model).backward(); optimizer.step(); optimizer.zero_grad()

def of_text(model):
    ids = torch.randint(0, 64, (2, 8))
    return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

def given():
    model = mlp()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))

def in_groups():
    model = mlp()
    model.train()
    parts = [{"params": [each]} for each in model.parameters()]
    train(model, torch.optim.SGD(parts, lr=0.1))

def tied():
    model = Gpt().to("cpu")
    train(model, torch.optim.AdamW(list(model.parameters()), lr=0.1), of=of_text)

class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = mlp().requires_grad_(False)
        self.low, self.high = nn.Linear(16, 2, bias=False), nn.Linear(2, 4, bias=False)
    def forward(self, x): return self.base(x) + self.high(self.low(x))

def adapted():
    model = Adapted()
    model.train()
    trained = [each for each in model.parameters() if each.requires_grad]
    train(model, torch.optim.AdamW(trained, lr=0.1))

def two_optimizers():
    model = mlp()
    train(model, *(torch.optim.SGD(model[each].parameters(), lr=0.1) for each in (0, 2)))

def unseen():
    model = mlp()
    train(model, torch.optim.SGD(list(model.parameters()), lr=0.1))

def raises():
    class Odd(nn.Sequential):
        def modules(self): raise RuntimeError("no such thing")
    model = Odd(nn.Linear(16, 4))
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))

run_all([given, in_groups, tied, adapted, two_optimizers, unseen, raises])
print("trained")
"""
)

DISTRIBUTED = (
    MODELS
    + """
import torch.distributed as dist
import torch.multiprocessing as mp

def train(rank, kind, meet):
    os.environ["RANK"] = str(rank)
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=2)
    model = Gpt()
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    elif kind.startswith("fsdp1"):
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
        keeps = kind.endswith("original")
        model = FSDP(model, use_orig_params=keeps, device_id=torch.device("cpu"))
    elif kind == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (2,))
        for block in model.blocks: fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    elif kind == "tensor":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import (
            ColwiseParallel, RowwiseParallel, parallelize_module)
        mesh = init_device_mesh("cpu", (2,))
        for block in model.blocks:
            parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        ids = torch.randint(0, 64, (2, 8))
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        optimizer.step(); optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(train, (KIND, MEET), nprocs=2)
    print("trained")
"""
)


@pytest.fixture
def told(trimtab, online, service, tmp_path):
    """Runs a script; the parameters that were told last by each rank."""

    def run(script: str):
        path = tmp_path / "train.py"
        path.write_text(script)
        with tempfile.TemporaryDirectory(prefix="tt-", dir="/tmp") as short:
            here = online | {"TMPDIR": short, "TORCH_LOGS": "-all", "OMP_NUM_THREADS": "1"}
            done = trimtab(here, "run", "--", PYTHON, "-W", "ignore", str(path))
        assert (done.stdout, done.returncode) == ("trained\n", 0), done.stderr
        segments = sorted(service.segments, key=lambda each: each.seq)
        events = [each.data for part in segments for each in part.events]
        counts = (each for each in events if "optimised" in each)
        return {each.pop("rank"): tuple(each.values()) for each in counts}

    return run


def test_the_parameters_of_models_that_are_never_named_are_counted(told):
    """Total, trainable, optimised, those of embeddings, and whether these are shared."""
    assert told(CASES) == {
        0: (MLP, MLP, MLP, 0, False),
        1: (MLP, MLP, MLP, 0, False),
        2: (GPT, GPT, GPT, EMBEDDING, True),
        3: (MLP + 16 * 2 + 2 * 4, 16 * 2 + 2 * 4, 16 * 2 + 2 * 4, 0, False),
        4: (MLP, MLP, MLP, 0, False),
        5: (None, None, MLP, None, None),
    }


@pytest.mark.parametrize("kind", ["ddp", "fsdp1", "fsdp1 original", "fsdp2", "tensor"])
def test_whole_parameters_are_counted_where_processes_share_them(told, service, tmp_path, kind):
    script = DISTRIBUTED.replace("KIND", repr(kind)).replace("MEET", repr(str(tmp_path / "meet")))
    whole = (GPT, GPT, GPT, EMBEDDING, True)
    assert told(script) == {0: whole, 1: whole}
    shared = 2 * SPLIT if kind == "tensor" else 0
    flops = {event.data["rank"]: event.data["forward"] for event in service.events("flops")}
    assert flops == {0: FORWARD - shared // 2, 1: FORWARD - shared // 2}
