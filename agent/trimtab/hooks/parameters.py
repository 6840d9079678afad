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
"""By the identity of each tensor: its elements, those of embeddings among them, and whether it is
trained."""
_MOST_MODELS = 16
"""The most modules that are remembered; the latest count."""


class ParameterCount(NamedTuple):
    """Numbers of parameters, each once, however many layers share it; whole ones where this process
    has a part. -1: not known."""

    total: int
    trainable: int
    optimised: int
    embedding: int


class Models:
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
            sizes.update(model)
        for key, parameter in optimised.items():
            if key not in sizes:
                sizes[key] = _elements(parameter), 0, parameter.requires_grad
        own = sum(sizes[key][0] for key in optimised)
        if trained is None:
            return ParameterCount(NOT_KNOWN, NOT_KNOWN, own, NOT_KNOWN)
        return ParameterCount(
            total=_total(sizes),
            trainable=sum(elements for elements, _, is_trained in sizes.values() if is_trained),
            optimised=own,
            embedding=sum(embedding for _, embedding, _ in sizes.values()),
        )

    def _trained_by(self, optimizers: list[Any]) -> list[_Sizes] | None:
        """Return the largest seen module around each optimizer's first parameter; None if one isn't
        around any.
        """
        seen = [_sizes_of(module) for ref in self._seen.values() if (module := ref()) is not None]
        found = []
        for optimizer in optimizers:
            first = id(next(_parameters(optimizer)))
            around = [sizes for sizes in seen if first in sizes]
            if not around:
                return None
            found.append(max(around, key=_total))
        return found


def _total(sizes: _Sizes) -> int:
    return sum(elements for elements, _, _ in sizes.values())


def _parameters(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _sizes_of(model: Any) -> _Sizes:
    """Return the parameters of a module and all within it."""
    layers = sys.modules["torch"].nn
    embeddings = layers.Embedding, layers.EmbeddingBag
    modules = list(model.modules())
    sizes: _Sizes = {}
    for module in modules:
        if "_handle" in module.__dict__:
            sizes.update(_flat_sizes(module._handle.flat_param, embeddings))
    for module in modules:
        parameters = module._parameters
        if parameters:
            _add_sizes(sizes, parameters.values(), isinstance(module, embeddings))
    return sizes


def _add_sizes(sizes: _Sizes, parameters: Iterable[Any], is_embedding: bool) -> None:
    for parameter in parameters:
        if parameter is None:
            continue
        known = sizes.get(id(parameter))
        if known is None:
            elements = _elements(parameter)
            sizes[id(parameter)] = elements, elements * is_embedding, parameter.requires_grad
        elif is_embedding and not known[1]:
            sizes[id(parameter)] = known[0], known[0], known[2]


def _flat_sizes(flat: Any, embeddings: tuple[Any, ...]) -> _Sizes:
    """Return the whole sizes of what FullyShardedDataParallel joined into one flat tensor, of which
    each process has a part.
    """
    of_embedding = [isinstance(info.module, embeddings) for info in flat._param_infos]
    pairs = list(zip(flat._numels, of_embedding))
    if flat._params is None:
        embedding = sum(elements for elements, is_embedding in pairs if is_embedding)
        return {id(flat): (sum(flat._numels), embedding, flat.requires_grad)}
    return {
        id(parameter): (elements, elements * is_embedding, parameter.requires_grad)
        for parameter, (elements, is_embedding) in zip(flat._params, pairs)
    }


def _elements(parameter: Any) -> int:
    """Return the elements of a tensor; of a distributed one, those of all processes.

    Raises:
        LookupError: its values are packed, or in another process.
    """
    elements = int(parameter.numel())
    if not elements or not (parameter.is_floating_point() or parameter.is_complex()):
        raise LookupError("the number of its values isn't known")
    return elements
