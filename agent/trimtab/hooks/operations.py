"""Tells what each operation of a counted step adds: forward, backward, or recomputed.

Operations that only move or combine numbers one by one count nothing, as is usual.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FrameType
from typing import Any

Formulas = dict[Any, Callable[..., int]]
"""The function of each operation that returns its FLOPs, from its arguments and `out_val`."""
_SMALL_LIBRARIES = frozenset(
    {"aten", "prim", "prims", "c10d", "_c10d_functional", "_c10d_functional_autograd"}
    | {"_dtensor", "fsdp", "profiler", "streams"}
)
"""The libraries of operations without a formula that do little work, or none that is large."""
_LARGE = (
    *("mv", "addmv", "dot", "vdot", "_grouped_mm", "_scaled_grouped_mm", "_int_mm"),
    *("_weight_int4pack_mm", "_weight_int8pack_mm", "_mixed_dtypes_linear", "_convolution_double"),
    *("_cudnn_rnn", "miopen_rnn", "mkldnn_rnn", "_cdist", "_fft", "linalg_", "_linalg_"),
    *("cholesky", "_transformer_encoder", "_native_multi_head", "_scaled_dot_product"),
    *("_flash_attention", "_efficient_attention", "_scaled_mm", "mkldnn_linear"),
)
"""The beginnings of names of PyTorch's own operations that do much work and may lack a formula."""
_SMALL = ("linalg_vector_norm", "linalg_cross", "linalg_diagonal")
_OWN_KERNELS = (
    *("flash_attn", "transformer_engine", "apex", "liger_kernel", "unsloth", "mamba_ssm"),
    "xformers",
)
"""Libraries that start kernels past PyTorch's dispatcher, so that they aren't seen."""
_ENGINE = ("torch/autograd/graph.py", "torch/autograd/__init__.py")


class StepTally:
    """The sums over the operations of one step."""

    def __init__(self) -> None:
        self.forward = self.backward = self.recomputed = self.operations = 0
        self.is_at_least = any(name in sys.modules for name in _OWN_KERNELS)
        """True if some operation was not counted."""
        self.is_whole = True
        """False if a part of the step may be missing, or an operation failed."""

    def note(self, function: Any, formula: Callable[..., int] | None) -> bool:
        """Note an operation. Returns True if its formula is to be added."""
        self.operations += 1
        if formula is None and not self.is_at_least:
            self.is_at_least = _is_large(function)
        return formula is not None

    def add(self, flops: int) -> None:
        torch = sys.modules["torch"]
        gradients = torch.is_grad_enabled()
        if torch._C._current_graph_task_id() == -1:
            if gradients or not _is_in_optimizer():
                self.forward += flops
        elif gradients and _is_in_checkpoint():
            self.recomputed += flops
        else:
            self.backward += flops


def counting_mode(formulas: Formulas) -> Any:
    """Return a mode that adds what the operations take to its `tally`, unless that is None."""
    modes: Any = import_module("torch.utils._python_dispatch")

    class CountingMode(modes.TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __init__(self) -> None:
            super().__init__()
            self.tally: StepTally | None = None

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = kwargs or {}
            counted = self.tally
            if counted is None:
                return func(*args, **named)
            try:
                result = func(*args, **named)
            except BaseException:
                counted.is_whole = False
                raise
            try:
                formula = formulas.get(getattr(func, "_overloadpacket", func))
                if counted.note(func, formula) and formula is not None:
                    flops = int(formula(*args, **named, out_val=result))
                    counted.add(flops // _processes(args))
            except Exception:
                counted.is_whole = False
            return result

    return CountingMode()


def _is_large(function: Any) -> bool:
    """Return whether an operation without a formula may do much of the work."""
    if getattr(function, "namespace", "") not in _SMALL_LIBRARIES:
        return True
    name = str(getattr(function, "_overloadpacket", function)).rpartition(".")[2]
    return name.startswith(_LARGE) and not name.startswith(_SMALL)


def _processes(arguments: tuple[Any, ...]) -> int:
    """Return how many processes share an operation on distributed tensors, which is seen whole on
    each of them.
    """
    meshes = (getattr(each, "device_mesh", None) for each in arguments)
    return max((int(mesh.size()) for mesh in meshes if mesh is not None), default=1)


def _is_in_optimizer() -> bool:
    return any("torch/optim/" in path for path in _callers())


def _is_in_checkpoint() -> bool:
    """Return whether activations are computed again that a checkpoint left out: then its code is
    nearer than that of the backward pass.
    """
    for path in _callers():
        if "checkpoint" in path.rpartition("/")[2]:
            return True
        if path.endswith(_ENGINE):
            return False
    return False


def _callers() -> Iterator[str]:
    """Yield the files of the functions that run, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back
