"""Trimtab's agent measures training runs; these calls are for training scripts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.loading import load
    from trimtab.sdk import epoch, log, phase, run, step, wrap

__version__ = "0.1.0"

__all__ = ["__version__", "epoch", "load", "log", "phase", "run", "step", "wrap"]


def __getattr__(name: str) -> Any:
    """Import what is used, and nothing else: the agent's own process needs none of it, and `load`
    is for notebooks.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module("trimtab.loading" if name == "load" else "trimtab.sdk"), name)
    globals()[name] = found
    return found
