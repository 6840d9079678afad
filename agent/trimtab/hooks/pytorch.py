"""Connects `training.py` to torch: a public hook for steps, and five small wrappers for the rest.

Each module of torch is patched right after its import. A part that a version of torch lacks stays
unpatched, and the rest works. Nothing here initialises CUDA, synchronises
a device, or keeps a tensor.
"""

from __future__ import annotations

import functools
import io
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic_ns
from types import ModuleType
from typing import Any

from trimtab import sdk
from trimtab.hooks import out_of_memory, restoring
from trimtab.hooks.batches import Batches
from trimtab.hooks.parameters import SeenModels
from trimtab.hooks.periodic import PeriodicChecks
from trimtab.hooks.training import TrainingState
from trimtab.ranks import ProcessRank, process_rank
from trimtab.recorder import Recorder
from trimtab.ring import NOT_KNOWN

_SHORT_LOAD_NS = 50_000_000
"""The least time of a load without a step that counts as a checkpoint: shorter ones would fill the
ring (ours)."""


def _recorder() -> Recorder | None:
    return sdk.attached.open(_process_rank())


def _process_rank() -> ProcessRank | None:
    """Return the process's rank. Processes that the script started have no launcher variables, but
    a process group.
    """
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed and distributed.is_available() and distributed.is_initialized():
            local = process_rank(os.environ).local_rank
            return ProcessRank(distributed.get_rank(), local, distributed.get_world_size())
    except Exception:
        return None
    return None


training = TrainingState(_recorder)
models = SeenModels()
periodic_checks = PeriodicChecks(training, models)


def _patch_optimizer(module: ModuleType) -> None:
    module.register_optimizer_step_post_hook(training.note_step)
    out_of_memory.watch(training.recorder)
    original = module.Optimizer.__init__

    @functools.wraps(original)
    def __init__(self: Any, params: Any, *arguments: Any, **named: Any) -> None:  # noqa: N807
        with suppress(Exception):
            models.note_owner(params)
        original(self, params, *arguments, **named)

    module.Optimizer.__init__ = __init__


# Loaders

_known: weakref.WeakKeyDictionary[Any, Batches] = weakref.WeakKeyDictionary()


def batches_of(loader: Any) -> Batches:
    """Return what is known of this loader, up to date."""
    batches = _known.get(loader)
    if batches is None:
        batches = _known[loader] = Batches(loader)
    else:
        batches.measure(loader)
    return batches


def _patch_loader(module: ModuleType) -> None:
    torch_c = sys.modules["torch"]._C
    loader_class, iterator_class = module.DataLoader, module._BaseDataLoaderIter
    loader_class.__iter__ = _timed_iter(loader_class.__iter__, torch_c.is_grad_enabled)
    iterator_class.__next__ = _timed_next(iterator_class.__next__, torch_c.is_grad_enabled)


def _timed_iter(original: Callable[..., Any], is_grad_enabled: Callable[[], bool]) -> Any:
    @functools.wraps(original)
    def __iter__(self: Any) -> Any:  # noqa: N807
        batches, trains = None, False
        try:
            training.counter.abandon()
            batches = batches_of(self)
            trains = training.loop_begins(batches, not is_grad_enabled())
            began = monotonic_ns()  # what the hook itself took is no data wait
        except Exception:
            return original(self)
        iterator = original(self)
        try:
            iterator._trimtab = batches
            if not trains:
                batches.iterator = weakref.ref(iterator, partial(_dropped, batches))
            if trains and (recorder := sdk.attached.recorder):
                recorder.record_wait(began)
        except Exception:
            return iterator
        return iterator

    return __iter__


def _timed_next(original: Callable[..., Any], is_grad_enabled: Callable[[], bool]) -> Any:
    counter = training.counter

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        recorder = sdk.attached.recorder
        if counter.is_entered:
            counter.pause()
        if recorder is None or recorder.fetching:
            return original(self)
        recorder.fetching = True
        began = monotonic_ns()
        try:
            batch = original(self)
        except StopIteration:
            recorder.fetching = False
            _ended(self)
            raise
        finally:
            recorder.fetching = False
        try:
            batches = self._trimtab
            if (
                batches is recorder.usual_batches
                and self._num_yielded <= batches.full_batches
                and is_grad_enabled()
            ):
                loop = recorder.loop
                loop.samples += batches.batch_size
                if batches.has_tokens:
                    loop.tokens += batches.tokens(batch)
                loop.wait_ns += monotonic_ns() - began
                return batch
            training.note_batch(
                recorder, batches, began, batch, self._num_yielded, not is_grad_enabled()
            )
        except Exception:
            return batch
        return batch

    return __next__


def _ended(iterator: Any) -> None:
    try:
        training.loop_ends(iterator._trimtab)
    except Exception:
        return


def _dropped(batches: Batches, _: Any) -> None:
    try:
        training.loop_dropped(batches)
    except Exception:
        return


# Modes, precision, checkpoints


def _patch_module(module: ModuleType) -> None:
    original = module.Module.train

    @functools.wraps(original)
    def train(self: Any, mode: bool = True) -> Any:
        if training.mode_begins(self, bool(mode)):
            models.note(self)
        try:
            return original(self, mode)
        finally:
            training.mode_ends()

    module.Module.train = train
    for name in ("to", "cuda"):
        setattr(module.Module, name, _noted(getattr(module.Module, name)))


def _noted(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that moves a module."""

    @functools.wraps(original)
    def move(self: Any, *arguments: Any, **named: Any) -> Any:
        with suppress(Exception):
            models.note(self)
        return original(self, *arguments, **named)

    return move


def _patch_autocast(module: ModuleType) -> None:
    original = module.autocast.__enter__

    @functools.wraps(original)
    def __enter__(self: Any) -> Any:  # noqa: N807
        periodic_checks.amp = self
        return original(self)

    module.autocast.__enter__ = __enter__


def _patch_save(module: ModuleType) -> None:
    original = module.save

    @functools.wraps(original)
    def save(obj: Any, f: Any, *arguments: Any, **named: Any) -> Any:
        before = _position(f)
        return training.saving(
            lambda: original(obj, f, *arguments, **named), lambda: _written_bytes(f, before), f
        )

    module.save = save  # type: ignore[attr-defined]
    module.load = _timed_load(module.load)  # type: ignore[attr-defined]


def _timed_load(original: Callable[..., Any]) -> Any:
    """Wrap a call that loads a file: it is a restore, unless a data set's worker makes it."""

    @functools.wraps(original)
    def load(f: Any, *arguments: Any, **named: Any) -> Any:
        began = monotonic_ns()
        result = original(f, *arguments, **named)
        try:
            step = restoring.step_of(result, f)
            took = monotonic_ns() - began
            if not _is_loader_worker():
                if took >= _SHORT_LOAD_NS or step != NOT_KNOWN:
                    training.note_checkpoint_load(began, restoring.size_of(f), step)
                training.files.record_load(f)
        except Exception:
            return result
        return result

    return load


def _is_loader_worker() -> bool:
    workers = sys.modules.get("torch.utils.data._utils.worker")
    return workers is not None and workers._worker_info is not None


def _patch_distributed_load(module: ModuleType) -> None:
    original = module.load

    @functools.wraps(original)
    def load(*arguments: Any, **named: Any) -> Any:
        began = monotonic_ns()
        result = original(*arguments, **named)
        try:
            place = named.get("checkpoint_id")
            step = restoring.step_of(arguments[0] if arguments else named.get("state_dict"), place)
            training.note_checkpoint_load(began, NOT_KNOWN, step)
        except Exception:
            return result
        return result

    module.load = load  # type: ignore[attr-defined]


def _patch_parallel(module: ModuleType) -> None:
    original = module.DistributedDataParallel.__init__

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **named: Any) -> None:  # noqa: N807
        original(self, *arguments, **named)
        periodic_checks.parallel = weakref.ref(self)

    module.DistributedDataParallel.__init__ = __init__


def _patch_graphs(module: ModuleType) -> None:
    """Count no step of a process that captures a graph: what it replays isn't seen."""
    original = module.CUDAGraph.capture_begin

    @functools.wraps(original)
    def capture_begin(self: Any, *arguments: Any, **named: Any) -> Any:
        training.counter.rule_out()
        return original(self, *arguments, **named)

    module.CUDAGraph.capture_begin = capture_begin


def _patch_safetensors(module: ModuleType) -> None:
    original = module.save_file

    @functools.wraps(original)
    def save_file(tensors: Any, filename: Any, *arguments: Any, **named: Any) -> Any:
        return training.saving(
            lambda: original(tensors, filename, *arguments, **named),
            lambda: _written_bytes(filename, 0),
            filename,
        )

    module.save_file = save_file  # type: ignore[attr-defined]
    module.load_file = _timed_load(module.load_file)  # type: ignore[attr-defined]


def _position(file: Any) -> int:
    try:
        return int(file.tell())
    except (AttributeError, OSError, ValueError, io.UnsupportedOperation):
        return 0


def _written_bytes(file: Any, before: int) -> int:
    if isinstance(file, (str, os.PathLike)):
        return os.path.getsize(file)  # noqa: PTH202
    after = _position(file)
    return after - before if after > before else NOT_KNOWN


patches: dict[str, Callable[[ModuleType], None]] = {
    "torch.optim.optimizer": _patch_optimizer,
    "torch.utils.data.dataloader": _patch_loader,
    "torch.cuda.graphs": _patch_graphs,
    "torch.nn.modules.module": _patch_module,
    "torch.amp.autocast_mode": _patch_autocast,
    "torch.serialization": _patch_save,
    "torch.nn.parallel.distributed": _patch_parallel,
    "torch.distributed.checkpoint.state_dict_loader": _patch_distributed_load,
    "safetensors.torch": _patch_safetensors,
}
