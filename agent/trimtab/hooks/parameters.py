"""Counts the parameters of the models that a process trains.

An optimizer may know a small part of its model only, as with LoRA. So the models are those that the
script has moved, set to a mode or given to an optimizer, as far as they hold what is optimised.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from trimtab.ring import NOT_KNOWN

_Sizes = dict[int, tuple[int, int, bool]]
"""The elements of each tensor, by its identity: all, those of embeddings, and whether it trains."""
_MOST_MODELS = 16
"""The most modules that are remembered; the latest count."""


class ParameterCount(NamedTuple):
    """Numbers of parameters, each once, however many layers share it; whole ones where this process
    has a part. -1: not known."""

    total: int
    trainable: int
    optimised: int
    embedding: int
    is_tied: bool
    """True if another layer shares an embedding's weights."""


class SeenModels:
    """The modules that the script handled as a whole."""

    def __init__(self) -> None:
        self._seen: dict[int, weakref.ref[Any]] = {}

    def note(self, module: Any) -> None:
        """Remember a module. Costs well below a microsecond if it is the last one."""
        self._seen.pop(id(module), None)
        self._seen[id(module)] = weakref.ref(module)
        if len(self._seen) > _MOST_MODELS:
            del self._seen[next(iter(self._seen))]

    def note_owner(self, parameters: Any) -> None:
        """Remember the module of `module.parameters()`, which is given to an optimizer."""
        frame = getattr(parameters, "gi_frame", None)
        owner = frame.f_locals.get("self") if frame is not None else None
        if isinstance(owner, sys.modules["torch"].nn.Module):
            self.note(owner)

    def count(self, optimizers: list[Any]) -> ParameterCount:
        """Return the parameters of the models that the optimizers train.

        If no module holds the first parameter of one of them, only what they have is known.
        """
        optimised = {id(each): each for one in optimizers for each in _parameters(one)}
        trained = self._trained_by(optimizers)
        sizes: _Sizes = {}
        for model in trained or ():
            sizes.update(model.by_tensor)
        for key, parameter in optimised.items():
            if key not in sizes:
                sizes[key] = _elements(parameter), 0, parameter.requires_grad
        own = sum(sizes[key][0] for key in optimised)
        if trained is None:
            return ParameterCount(NOT_KNOWN, NOT_KNOWN, own, NOT_KNOWN, False)
        return ParameterCount(
            total=_total(sizes),
            trainable=sum(elements for elements, _, is_trained in sizes.values() if is_trained),
            optimised=own,
            embedding=sum(embedding for _, embedding, _ in sizes.values()),
            is_tied=any(model.is_tied for model in trained),
        )

    def _trained_by(self, optimizers: list[Any]) -> list[_Model] | None:
        """Return the largest seen module around each optimizer's first parameter; None if one isn't
        around any.
        """
        seen = [_Model(module) for ref in self._seen.values() if (module := ref()) is not None]
        found = []
        for optimizer in optimizers:
            first = id(next(_parameters(optimizer)))
            around = [model for model in seen if first in model.by_tensor]
            if not around:
                return None
            found.append(max(around, key=lambda model: _total(model.by_tensor)))
        return found


def _total(sizes: _Sizes) -> int:
    return sum(elements for elements, _, _ in sizes.values())


def _parameters(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


class _Model:
    """The parameters of a module and all within it."""

    def __init__(self, module: Any) -> None:
        self.by_tensor: _Sizes = {}
        self._flat: set[int] = set()
        """The tensors that hold those of many layers, by their identity."""
        self.is_tied = False
        layers = sys.modules["torch"].nn
        embeddings = layers.Embedding, layers.EmbeddingBag
        modules = list(module.modules())
        for each in modules:
            if "_handle" in each.__dict__:
                self._add_flat(each._handle.flat_param, embeddings)
        for each in modules:
            parameters = each._parameters
            if parameters:
                self._add(parameters.values(), isinstance(each, embeddings))

    def _add(self, parameters: Iterable[Any], is_embedding: bool) -> None:
        for parameter in parameters:
            if parameter is None or id(parameter) in self._flat:
                continue
            known = self.by_tensor.get(id(parameter))
            if known is None:
                elements, trains = _elements(parameter), parameter.requires_grad
                self.by_tensor[id(parameter)] = elements, elements * is_embedding, trains
            elif is_embedding != (known[1] > 0):
                self.is_tied = True
                self.by_tensor[id(parameter)] = known[0], known[0], known[2]

    def _add_flat(self, flat: Any, embeddings: tuple[Any, ...]) -> None:
        """Add the whole sizes of what FullyShardedDataParallel joined into one flat tensor, of
        which each process has a part.
        """
        are_embeddings = [isinstance(info.module, embeddings) for info in flat._param_infos]
        pairs = list(zip(flat._numels, are_embeddings))
        shared = [isinstance(info.module, embeddings) for info in flat._shared_param_infos]
        self.is_tied |= any(are_embeddings) and not all(shared)
        if flat._params is None:
            embedding = sum(elements for elements, is_embedding in pairs if is_embedding)
            self.by_tensor[id(flat)] = sum(flat._numels), embedding, flat.requires_grad
            self._flat.add(id(flat))
            return
        for parameter, (elements, is_embedding) in zip(flat._params, pairs):
            sizes = elements, elements * is_embedding, parameter.requires_grad
            self.by_tensor[id(parameter)] = sizes


def _elements(parameter: Any) -> int:
    """Return the elements of a tensor; of a distributed one, those of all processes.

    Raises:
        LookupError: its values are packed, or in another process.
    """
    elements = int(parameter.numel())
    if not elements or not (parameter.is_floating_point() or parameter.is_complex()):
        raise LookupError("the number of its values isn't known")
    return elements
