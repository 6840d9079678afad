"""The floating-point operations of single steps, against counts by hand."""

from __future__ import annotations

import subprocess
import tempfile

from tests.agent.torch_models import MODELS
from tests.agent.torch_python import NEEDS_TORCH, PYTHON

pytestmark = NEEDS_TORCH

CASES = (
    MODELS
    + """
import contextlib
from torch.utils.data import DataLoader
from torch.utils._python_dispatch import TorchDispatchMode

def depth(): return torch._C._len_torch_dispatch_stack()

def train(model, loss_of, steps=4, **settings):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for number in range(steps):
        loss = loss_of(model)
        loss.backward(**settings); optimizer.step(); optimizer.zero_grad()
        losses.append(loss.item().hex())
    print(*losses)

def of_text(model):
    ids = torch.randint(0, 64, (2, 8))
    return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

def simple(): train(mlp(), lambda model: model(torch.randn(8, 16)).square().sum())
def convolutions():
    model = resnet([1, 2, 1, 1], 4, 10)
    train(model, lambda model: model(torch.randn(2, 3, 64, 64)).square().sum())
def fused(): train(Gpt("sdpa"), of_text)
def eager(): train(Gpt("eager"), of_text)
def checkpointed(): train(Gpt("eager", checkpoints=False), of_text)
def checkpointed_again(): train(Gpt("eager", checkpoints=True), of_text)

def accumulated():
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = DataLoader(torch.randn(24, 16), batch_size=4, num_workers=1)
    for _ in range(2):
        for number, batch in enumerate(loader, 1):
            model(batch).square().sum().backward()
            if number % 3 == 0:
                optimizer.step(); optimizer.zero_grad()
    assert not depth()

def two_optimizers():
    first, second = mlp(), mlp()
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in (first, second)]
    for _ in range(5):
        for model, optimizer in zip((first, second), optimizers):
            model(torch.randn(8, 16)).square().sum().backward(); optimizer.step()

def twice_differentiated():
    def penalised(model):
        x = torch.randn(8, 16, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return slope.square().sum()
    train(mlp(), penalised)

def recurrent():
    model = nn.ModuleList([nn.LSTM(16, 8), nn.Linear(8, 4)])
    train(model, lambda parts: parts[1](parts[0](torch.randn(4, 2, 16))[0]).square().sum())

def compiled():
    graphs = []
    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward
    model = mlp()
    fast = torch.compile(model, backend=backend)
    train(model, lambda _: fast(torch.randn(8, 16)).square().sum(), steps=100)
    again = torch.compile(lambda x: x.sin().cos(), backend=backend)
    again(torch.randn(3))
    assert len(graphs) == 2, graphs

def compiled_later():
    train(mlp(), lambda model: model(torch.randn(8, 16)).square().sum())
    graphs = []
    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward
    fast = torch.compile(mlp(), backend=backend)
    fast(torch.randn(8, 16))
    assert len(graphs) == 1, graphs

def raising():
    def failing(model):
        loss = model(torch.randn(8, 16)).square().sum()
        if len(model.tried) == 1:
            model.tried.append(1)
            model(torch.randn(8, 3))
        model.tried.append(1)
        return loss
    model = mlp()
    model.tried = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        with contextlib.suppress(RuntimeError):
            failing(model).backward()
        optimizer.step()
    assert not depth()

class Seen(TorchDispatchMode):
    def __init__(self): super().__init__(); self.operations = 0
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        return func(*args, **(kwargs or {}))

def own_mode():
    seen = Seen()
    with seen:
        train(mlp(), lambda model: model(torch.randn(8, 16)).square().sum())
        assert depth() == 1
    assert not depth()
    print(seen.operations)

def own_mode_within():
    def within(model):
        with Seen():
            return model(torch.randn(8, 16)).square().sum()
    train(mlp(), within)
    assert not depth()

def own_mode_across():
    model, seen = mlp(), Seen()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(6):
        if number == 1: seen.__enter__()
        model(torch.randn(8, 16)).square().sum().backward(); optimizer.step()
        if number == 3: seen.__exit__(None, None, None)
    assert not depth()

def forking():
    def forked(model):
        child = os.fork()
        if not child: os._exit(depth())
        assert os.waitpid(child, 0)[1] == 0
        return model(torch.randn(8, 16)).square().sum()
    train(mlp(), forked)

def evaluating():
    model = mlp()
    def evaluated(model):
        loss = model(torch.randn(8, 16)).square().sum()
        model.eval()
        assert not depth()
        model(torch.randn(8, 16))
        model.train()
        return loss
    train(model, evaluated)

def resnet_50():
    train(resnet([3, 4, 6, 3], 64, 1000), lambda m: m(torch.randn(1, 3, 224, 224)).sum(), steps=2)

run_all([simple, convolutions, fused, eager, checkpointed, checkpointed_again, accumulated,
         two_optimizers, twice_differentiated, recurrent, compiled, compiled_later, raising,
         own_mode, own_mode_within, own_mode_across, forking, evaluating, resnet_50])
"""
)
MLP = 2 * 8 * (16 * 32 + 32 * 4), 2 * 8 * (16 * 32 + 2 * 32 * 4)
"""Forward, and backward: the first layer has no gradient of its input."""
WEIGHTS = 2 * (24 * 72 + 24 * 24 + 2 * 24 * 96) + 24 * 64
ATTENTION = 2 * 2 * 3 * 2 * (2 * 8 * 8 * 8)
"""Two products of 8 x 8 x 8, for two blocks, two texts and three heads."""
GPT = 2 * 16 * WEIGHTS + ATTENTION
BLOCKS = GPT - 2 * 16 * 24 * 64


def test_counts_are_those_by_hand_and_nothing_else_changes(trimtab, online, service, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(CASES)
    with tempfile.TemporaryDirectory(prefix="tt-", dir="/tmp") as short:
        here = online | {"TMPDIR": short, "TORCH_LOGS": "-all", "OMP_NUM_THREADS": "1"}
        command = [PYTHON, "-W", "ignore", str(script)]
        done = trimtab(here, "run", "--", *command)
        bare = subprocess.run(command, env=here, capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.returncode) == ("", 0)
    assert (bare.stdout, bare.stderr) == (done.stdout, "")  # each loss, to the bit
    found = {}
    for event in service.events("flops"):
        found.setdefault(event.data.pop("rank"), []).append(event.data)
    assert {rank: _work(counted[0]) for rank, counted in found.items()} == {
        0: (*MLP, 0),
        1: (*_resnet([1, 2, 1, 1], 4, 10, 64, batch=2), 0),
        2: (GPT, 2 * (GPT - ATTENTION) + 5 * ATTENTION // 2, 0),
        3: (GPT, 2 * GPT, 0),
        4: (GPT, 2 * GPT, BLOCKS - 2 * 2 * 16 * 24 * 96),
        5: (GPT, 2 * GPT, BLOCKS),
        6: (3 * MLP[0] // 2, 3 * MLP[1] // 2, 0),
        7: (2 * MLP[0], 2 * MLP[1], 0),
        8: (MLP[0], found[8][0]["backward"], 0),
        9: (2 * 8 * 8 * 4, 2 * 2 * 8 * 8 * 4, 0),
        11: (*MLP, 0),
        14: (*MLP, 0),
        16: (*MLP, 0),
        18: (*_resnet([3, 4, 6, 3], 64, 1000, 224, batch=1), 0),
    }
    assert [rank for rank, (first, *_) in found.items() if first["at_least"]] == [9]
    assert [(each["samples"], each["tokens"]) for each in found[6]] == [(12, None)]
    assert found[18][0]["forward"] == 2 * 4_089_184_256  # as published for ResNet-50


def _work(counted: dict) -> tuple[int, int, int]:
    return counted["forward"], counted["backward"], counted["recomputed"]


def _resnet(depths, base, classes, size, batch) -> tuple[int, int]:
    """Return the operations of a ResNet of bottlenecks, forward and backward."""
    first = layers = 0

    def convolve(source, target, kernel, places):
        return 2 * batch * places**2 * source * target * kernel**2

    places = size // 2
    first = convolve(3, base, 7, places)
    places //= 2
    inner = base
    for stage, depth in enumerate(depths):
        width = base << stage
        for number in range(depth):
            layers += convolve(inner, width, 1, places)
            places //= 2 if stage and not number else 1
            layers += convolve(width, width, 3, places) + convolve(width, 4 * width, 1, places)
            layers += convolve(inner, 4 * width, 1, places) if inner != 4 * width else 0
            inner = 4 * width
    layers += 2 * batch * inner * classes
    return first + layers, first + 2 * layers
