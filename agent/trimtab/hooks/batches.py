"""One torch DataLoader: its settings, and how many samples each of its batches holds."""

from __future__ import annotations

from typing import Any

from trimtab import ring
from trimtab.recorder import Recorder
from trimtab.ring import NOT_KNOWN


class Batches:
    """State of one loader, kept while the loader exists."""

    __slots__ = (
        "_last",
        "_period",
        "_settings",
        "_shapes_only",
        "batch_size",
        "began_ns",
        "epoch_samples",
        "fetched",
        "full_batches",
        "has_tokens",
        "is_reported",
        "iterator",
        "train",
    )

    def __init__(self, loader: Any) -> None:
        self.train = False
        """True once its batches led to optimizer steps."""
        self.is_reported = False
        self.began_ns = 0
        """The time at which the loop began, until its first step."""
        self.fetched = 0
        """Batches of this loop that may be for evaluation."""
        self.iterator: Any = None
        """A weak reference to the iterator of the last evaluation."""
        self.has_tokens = True
        """False once a batch had no tokens that are known."""
        self._settings = loader
        self.batch_size = _whole(getattr(loader, "batch_size", None))
        self._shapes_only = False
        self.full_batches = self._last = NOT_KNOWN
        self._period = 0
        """The number of batches known to hold `batch_size` samples; -1 to look at each batch."""
        self.epoch_samples = NOT_KNOWN
        """The number of samples of a whole loop over the loader."""
        self.measure(loader)

    def measure(self, loader: Any) -> None:
        """Note how many batches are full and what the last one holds; both change with the
        sampler.
        """
        own_batches = self.batch_size == NOT_KNOWN and loader.batch_sampler is not None
        iterable = type(loader.sampler).__name__ == "_InfiniteConstantSampler"
        self._shapes_only = own_batches or iterable
        if self.batch_size > 0 and not self._shapes_only:
            self.full_batches, self._last = divmod(len(loader.sampler), self.batch_size)
            self._period = self.full_batches + (self._last > 0 and not loader.drop_last)
            self.epoch_samples = self._samples_of(loader.batch_sampler)

    def _samples_of(self, batch_sampler: Any) -> int:
        """Return the samples of a whole loop; accelerate gives each process a part of it."""
        try:
            batches = len(batch_sampler)
        except TypeError:
            return NOT_KNOWN
        rest = self._last if batches > self.full_batches else 0
        return min(batches, self.full_batches) * self.batch_size + rest

    def samples(self, batch: Any, number: int) -> int:
        """Return the samples of the `number`th batch (from 1); NOT_KNOWN if the loader does not
        batch samples.
        """
        if self._shapes_only:
            length = _first_length(batch)
            return min(length, self.batch_size) if self.batch_size > 0 else length
        if number > self._period > 0:
            number = (number - 1) % self._period + 1  # a sampler that restarts by itself
        return self._last if number > self.full_batches else self.batch_size

    def tokens(self, batch: Any) -> int:
        """Return the tokens of a batch, padding included; NOT_KNOWN if it isn't text."""
        if self.has_tokens:
            try:
                ids = (
                    _ids_of_pair(batch) if isinstance(batch, (list, tuple)) else batch["input_ids"]
                )
                if not ids.is_floating_point():
                    return int(ids.numel())
            except Exception:
                self.has_tokens = False
        return NOT_KNOWN

    def report(self, recorder: Recorder, evaluates: bool) -> None:
        loader, self._settings, self.is_reported = self._settings, None, True
        flags = ring.PIN_MEMORY * bool(getattr(loader, "pin_memory", False))
        flags |= ring.PERSISTENT_WORKERS * bool(getattr(loader, "persistent_workers", False))
        flags |= ring.EVALUATES * evaluates
        workers = _whole(getattr(loader, "num_workers", None))
        prefetch = _whole(getattr(loader, "prefetch_factor", None))
        if not workers:
            prefetch = NOT_KNOWN  # older versions of torch return 2 anyway
        recorder.fact(ring.LOADER, workers, self.batch_size, prefetch, flags)


def _whole(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**62 else NOT_KNOWN


def _ids_of_pair(batch: Any) -> Any:
    """Return the first of two tensors of one type and shape with two dimensions, as a text and the
    same text one token later are.

    Raises:
        ValueError: the batch is something else.
    """
    ids, following = batch
    if len(ids.shape) != 2 or ids.shape != following.shape or ids.dtype != following.dtype:
        raise ValueError("no text")
    return ids


def _first_length(batch: Any) -> int:
    """Return the first dimension of the batch's first tensor."""
    for _ in range(4):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else NOT_KNOWN
        if isinstance(batch, dict):
            batch = next(iter(batch.values()), None)
        elif isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        else:
            return NOT_KNOWN
    return NOT_KNOWN
