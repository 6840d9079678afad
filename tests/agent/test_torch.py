"""Unmodified PyTorch scripts under the real `trimtab run`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from trimtab.wire import Segment

from tests.agent.torch_python import NEEDS_TORCH, PYTHON

pytestmark = NEEDS_TORCH

TRAINING = """
import os, sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
class Slow(Dataset):
    def __len__(self): return 10
    def __getitem__(self, i):
        time.sleep(0.005)
        return torch.randn(8), i % 3
torch.set_num_threads(1)
"""
LOOP = """
loader = DataLoader(Slow(), batch_size=4, shuffle=True, **SETTINGS)
held = DataLoader(TensorDataset(torch.randn(6, 8)), batch_size=2)
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    model.train()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    model.eval()
    with torch.no_grad():
        for (x,) in held: model(x); time.sleep(0.01)
    torch.save(model.state_dict(), "model.pt")
print("trained")
"""


@pytest.fixture
def training(trimtab, online, service):
    """Runs a script as `python script.py` would; all that arrived, as one segment."""

    def run(body: str, settings: str = "{}"):
        script = TRAINING + body.replace("SETTINGS", settings)
        quiet = {"TORCH_LOGS": "-all"}  # torch warns of its own profiler when it compiles a step
        # Loader workers make a Unix socket in it, whose path may have 107 bytes.
        with tempfile.TemporaryDirectory(prefix="tt-", dir="/tmp") as short:
            here = online | quiet | {"TMPDIR": short}
            done = trimtab(here, "run", "--", PYTHON, "-W", "ignore", "-c", script)
        assert (done.stdout, done.stderr, done.returncode) == ("trained\n", "", 0)
        assert [segment.refused for segment in service.segments if segment.refused] == []
        return _joined(sorted(service.segments, key=lambda segment: segment.seq))

    return run


def _joined(segments: list[Segment]) -> Segment:
    """Join segments: a slow machine takes longer than one lasts. Times stay those of each
    segment.
    """
    whole, *more = segments
    for segment in more:
        whole.events += segment.events
        for block in segment.steps:
            same = [b for b in whole.steps if (b.rank, b.phase) == (block.rank, block.phase)]
            if not same:
                whole.steps.append(block)
            for known in same:
                known.duration_us += block.duration_us
                known.data_wait_us += block.data_wait_us
                known.samples += block.samples
    return whole


def test_an_unmodified_training_yields_steps_waits_and_samples(training):
    (steps,) = training(LOOP).steps
    assert (steps.rank, steps.phase, steps.samples) == (0, "train", [4, 4, 2] * 2)
    for duration, wait, samples in zip(
        steps.duration_us, steps.data_wait_us, steps.samples, strict=True
    ):
        assert 5_000 * samples <= wait <= duration


def test_the_time_that_the_hook_takes_to_describe_a_loader_is_no_wait(training):
    slow_to_describe = """
class Described(DataLoader):
    def __getattribute__(self, name):
        if name == "prefetch_factor": time.sleep(0.05)
        return super().__getattribute__(name)
"""
    (steps,) = training(
        slow_to_describe + LOOP.replace("= DataLoader(Slow", "= Described(Slow")
    ).steps
    waits = zip(steps.data_wait_us, steps.duration_us, strict=True)
    assert all(wait <= duration for wait, duration in waits)


def test_epochs_evaluation_and_checkpoints_are_recorded(training, service):
    training(LOOP)
    assert [e.data["number"] for e in service.events("epoch")] == [0, 1]
    assert [e.data["samples"] for e in service.events("epoch_length")] == [10]
    phases = [e.data["phase"] for e in service.events("phase_begin")]
    assert phases == ["evaluate", "checkpoint"] * 2
    begins, ends = service.times_ms("phase_begin"), service.times_ms("phase_end")
    assert ends[0] - begins[0] >= 30
    saved = [event.data for event in service.events("checkpoint")]
    assert [data["bytes"] > 500 and data["seconds"] > 0 for data in saved] == [True, True]


def test_the_settings_of_each_loader_are_recorded_once(training, service):
    settings = "dict(num_workers=1, prefetch_factor=3, persistent_workers=True)"
    training(LOOP, settings)
    train, held = (event.data for event in service.events("loader"))
    assert train == {
        "rank": 0,
        "phase": "train",
        "workers": 1,
        "batch_size": 4,
        "prefetch_factor": 3,
        "pin_memory": False,
        "persistent_workers": True,
    }
    assert (held["phase"], held["workers"], held["prefetch_factor"]) == ("evaluate", 0, None)


def test_precision_is_recorded(training, service):
    body = LOOP.replace(
        "loss = nn", "with torch.autocast('cpu', dtype=torch.bfloat16): model(x)\n        loss = nn"
    )
    training("torch.set_float32_matmul_precision('high')\n" + body)
    (told,) = (event.data for event in service.events("precision"))
    assert (told["amp"], told["parameters"], told["tf32"]) == ("bfloat16", "float32", True)


VISION = """
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 4, 1),
                      nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(16, 2))FORMAT
x = torch.randn(2, 3, 8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(x).sum().backward(); optimizer.step()
print("trained")
"""


@pytest.mark.parametrize("number", [0, 2])
def test_the_format_of_convolutions_is_recorded(number, training, service):
    """A convolution of one place or of one channel looks the same in both formats."""
    format_ = ".to(memory_format=torch.channels_last)" if number else ""
    training(VISION.replace("FORMAT", format_))
    (told,) = (event.data for event in service.events("memory_format"))
    assert told == {"rank": 0, "convolutions": 2, "channels_last": number}


def test_a_model_without_convolutions_says_so(training, service):
    training(LOOP)
    (told,) = (event.data for event in service.events("memory_format"))
    assert told["convolutions"] == 0


def test_a_loader_that_drops_its_last_batch_has_a_shorter_epoch(training, service):
    training(LOOP, "{'drop_last': True}")
    assert [e.data["samples"] for e in service.events("epoch_length")] == [8]


def test_the_length_of_an_epoch_is_told_where_the_script_tells_its_epochs(training, service):
    told = "    import trimtab; trimtab.epoch(epoch)\n    model.train()\n"
    training(LOOP.replace("    model.train()\n", told))
    assert [e.data["number"] for e in service.events("epoch")] == [0, 1]
    assert [e.data["samples"] for e in service.events("epoch_length")] == [10]


def test_a_pause_for_evaluation_in_mid_epoch_is_no_part_of_a_step(training):
    body = """
loader = DataLoader(TensorDataset(torch.randn(12, 8)), batch_size=4)
held = DataLoader(TensorDataset(torch.randn(6, 8)), batch_size=2)
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number, (x,) in enumerate(loader):
    model(x).sum().backward(); optimizer.step()
    model.eval()
    with torch.no_grad():
        for i, (x,) in enumerate(held):
            time.sleep(0.1)
            if number == 0 and i == 1: break
    model.train()
print("trained")
"""
    segment = training(body)
    (steps,) = segment.steps
    assert steps.samples == [4, 4, 4]
    assert max(steps.duration_us[1:]) < 80_000
    kinds = [e.kind for e in segment.events if e.kind.startswith("phase")]
    assert kinds == ["phase_begin", "phase_end"] * 3


def test_a_frozen_part_in_eval_mode_does_not_make_a_training_an_evaluation(training):
    body = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen, self.head = nn.Linear(8, 8), nn.Linear(8, 3)
    def train(self, mode=True):
        super().train(mode)
        self.frozen.eval()
        return self
    def forward(self, x): return self.head(self.frozen(x))
loader = DataLoader(TensorDataset(torch.randn(12, 8)), batch_size=4)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    model.train()
    for (x,) in loader:
        model(x).sum().backward(); optimizer.step()
print("trained")
"""
    (steps,) = training(body).steps
    assert (steps.phase, steps.samples) == ("train", [4] * 6)


def test_accumulated_gradients_and_two_optimizers_make_one_step_a_round(training):
    body = """
loader = DataLoader(TensorDataset(torch.randn(16, 8)), batch_size=2)
model, critic = nn.Linear(8, 3), nn.Linear(8, 1)
optimizers = [torch.optim.Adam(m.parameters()) for m in (model, critic)]
for number, (x,) in enumerate(loader):
    (model(x).sum() + critic(x).sum()).backward()
    if number % 2:
        for optimizer in optimizers: optimizer.step()
print("trained")
"""
    (steps,) = training(body).steps
    assert steps.samples == [4] * 4


def test_steps_that_the_script_reports_are_not_counted_twice(training, service):
    body = """
import trimtab
loader = DataLoader(Slow(), batch_size=2)
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = iter(trimtab.wrap(loader))
waited_ns = 0
while True:
    asked_at_ns = time.perf_counter_ns()
    batch = next(batches, None)
    waited_ns += time.perf_counter_ns() - asked_at_ns
    if batch is None: break
    model(batch[0]).sum().backward(); optimizer.step()
    trimtab.step(samples=2)
trimtab.log(waited_us=waited_ns / 1000)
print("trained")
"""
    (steps,) = training(body).steps
    assert len(steps.duration_us) == 5
    assert all(wait >= 10_000 for wait in steps.data_wait_us)
    (metric,) = service.events("metric")
    assert sum(steps.data_wait_us) <= metric.data["value"]


def test_batches_that_another_thread_fetches_are_not_called_a_wait(training):
    body = """
import queue, threading
ready = queue.Queue(2)
def fetch():
    for batch in DataLoader(Slow(), batch_size=2): ready.put(batch)
    ready.put(None)
threading.Thread(target=fetch).start()
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while (batch := ready.get()) is not None:
    model(batch[0]).sum().backward(); optimizer.step()
print("trained")
"""
    (steps,) = training(body).steps
    assert steps.data_wait_us == [None] * len(steps.data_wait_us)


def test_iterable_datasets_count_what_arrives(training):
    body = """
from torch.utils.data import IterableDataset
class Stream(IterableDataset):
    def __iter__(self): return iter(torch.randn(7, 8))
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Stream(), batch_size=3):
    model(x).sum().backward(); optimizer.step()
print("trained")
"""
    (steps,) = training(body).steps
    assert steps.samples == [3, 3, 1]


def test_a_compiled_optimizer_and_a_copied_loader_work_as_ever(training):
    body = """
import copy, pickle
loader = DataLoader(TensorDataset(torch.randn(8, 8)), batch_size=4)
list(loader)
loader = pickle.loads(pickle.dumps(copy.copy(loader)))
pickle.loads(pickle.dumps((torch.save, nn.Module.train, DataLoader)))
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = torch.compile(optimizer.step, backend="eager")
for (x,) in loader:
    torch.compile(model, backend="eager")(x).sum().backward(); step()
print("trained")
"""
    training(body)


def test_two_ranks_of_torchrun_are_one_run(trimtab, online, service, tmp_path):
    script = tmp_path / "train.py"
    loop = LOOP.replace("SETTINGS", "{}").replace('"model.pt"', "os.devnull")
    begin = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
    script.write_text(TRAINING + begin + loop + "dist.destroy_process_group()\n")
    launcher = [PYTHON, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = trimtab(online | {"OMP_NUM_THREADS": "1"}, "run", "--", *launcher, str(script))
    assert (done.stdout, done.returncode) == ("trained\n" * 2, 0), done.stderr
    assert len({d.run_id for d in service.declarations}) == 1
    counted: dict[int, int] = {}
    for steps in (steps for segment in service.segments for steps in segment.steps):
        counted[steps.rank] = counted.get(steps.rank, 0) + len(steps.duration_us)
    assert counted == {0: 6, 1: 6}
    ranks = {e.data["rank"]: e.data for e in service.events("rank")}
    assert [ranks[0]["world_size"], ranks[1]["world_size"], ranks[1]["local_rank"]] == [2, 2, 1]


def test_processes_that_the_script_spawns_know_their_rank_from_their_group(
    trimtab, online, service, tmp_path
):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.distributed as dist, torch.multiprocessing as mp\n"
        "def train(rank, path):\n"
        "    meet = 'file://' + path\n"
        "    dist.init_process_group('gloo', init_method=meet, rank=rank, world_size=2)\n"
        "    w = torch.nn.Parameter(torch.ones(1)); o = torch.optim.SGD([w])\n"
        "    for _ in range(3): w.sum().backward(); o.step()\n"
        "    dist.destroy_process_group()\n"
        "if __name__ == '__main__':\n"
        f"    mp.spawn(train, ({str(tmp_path / 'meet')!r},), nprocs=2)\n"
    )
    done = trimtab(online, "run", "--", PYTHON, "-W", "ignore", str(script))
    assert done.returncode == 0, done.stderr
    assert sorted({e.data["rank"] for e in service.events("rank")}) == [0, 1]


def test_a_hook_that_breaks_costs_the_steps_only(trimtab, online, tmp_path: Path):
    """A run folder that vanishes under way, as when a second user cleans /tmp."""
    body = "import shutil; shutil.rmtree(os.environ['TRIMTAB_RUN_DIR'])\n" + LOOP
    script = TRAINING + body.replace("SETTINGS", "{}")
    done = trimtab(online, "run", "--", PYTHON, "-W", "ignore", "-c", script)
    assert (done.stdout, done.stderr, done.returncode) == ("trained\n", "", 0)
