"""The tokens of each step, as the hook counts them in unmodified scripts."""

from __future__ import annotations

import tempfile

from tests.agent.torch_models import MODELS
from tests.agent.torch_python import NEEDS_TORCH, PYTHON

pytestmark = NEEDS_TORCH

CASES = (
    MODELS
    + """
from torch.utils.data import DataLoader
import trimtab
lengths = [8, 8, 5, 8, 8, 3]

def texts(collate, rows=6, **settings):
    data = [torch.randint(0, 64, (9,)) for _ in range(rows)]
    return DataLoader(data, batch_size=2, collate_fn=collate, **settings)

def train(loader, ids_of, every=1):
    model = Gpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for number, batch in enumerate(loader, 1):
            model(ids_of(batch)).sum().backward()
            if number % every == 0:
                optimizer.step()

def named(rows):
    return {"labels": torch.zeros(1), "input_ids": torch.stack(rows)[:, :8]}

def by_name(): train(texts(named), lambda batch: batch["input_ids"])
def in_workers(): train(texts(named, num_workers=1), lambda batch: batch["input_ids"])
def accumulated(): train(texts(named, rows=8), lambda batch: batch["input_ids"], every=2)
def shifted():
    pair = lambda rows: (torch.stack(rows)[:, :-1], torch.stack(rows)[:, 1:])
    train(texts(pair), lambda batch: batch[0])
def of_other_lengths():
    left = iter([8, 6, 8, 4, 8, 8])
    train(texts(lambda rows: {"input_ids": torch.stack(rows)[:, :next(left)]}),
          lambda batch: batch["input_ids"])
def labelled():
    pair = lambda rows: (torch.stack(rows)[:, :8], torch.zeros(2))
    train(texts(pair), lambda batch: batch[0])
def told():
    for _ in range(3): trimtab.step(samples=2, tokens=100)
    trimtab.step(samples=2, tokens=-5)

run_all([by_name, in_workers, accumulated, shifted, of_other_lengths, labelled, told])
print("trained")
"""
)


def test_tokens_are_exact_through_accumulation_and_unknown_where_nothing_tells_them(
    trimtab, online, service, tmp_path
):
    script = tmp_path / "train.py"
    script.write_text(CASES)
    with tempfile.TemporaryDirectory(prefix="tt-", dir="/tmp") as short:
        here = online | {"TMPDIR": short, "TORCH_LOGS": "-all"}
        done = trimtab(here, "run", "--", PYTHON, "-W", "ignore", str(script))
    assert (done.stdout, done.returncode) == ("trained\n", 0), done.stderr
    tokens, samples = _steps(service)
    assert tokens == {
        0: [16] * 6,
        1: [16] * 6,
        2: [32] * 4,
        3: [16] * 6,
        4: [16, 12, 16, 8, 16, 16],
        5: [None] * 6,
        6: [100, 100, 100, None],
    }
    assert samples == {0: [2] * 6, 1: [2] * 6, 2: [4] * 4, **dict.fromkeys((3, 4, 5), [2] * 6)} | {
        6: [2] * 4
    }


def _steps(service):
    """Return the tokens and samples of each rank's steps, in order."""
    tokens, samples = {}, {}
    for segment in sorted(service.segments, key=lambda each: each.seq):
        for event in segment.events:
            if event.kind == "step_untimed":
                tokens.setdefault(event.data["rank"], []).append(event.data.get("tokens"))
                samples.setdefault(event.data["rank"], []).append(event.data["samples"])
        for block in segment.steps:
            known = block.tokens or [None] * len(block.samples)
            tokens.setdefault(block.rank, []).extend(known)
            samples.setdefault(block.rank, []).extend(block.samples)
    return tokens, samples
