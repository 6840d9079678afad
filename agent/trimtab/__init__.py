"""Trimtab's agent measures training runs; these calls are for training scripts."""

from typing import TYPE_CHECKING, Any

from trimtab.sdk import epoch, log, phase, run, step, wrap

if TYPE_CHECKING:
    from trimtab.loading import load

__version__ = "0.1.0"

__all__ = ["__version__", "epoch", "load", "log", "phase", "run", "step", "wrap"]


def __getattr__(name: str) -> Any:
    """`load` is for notebooks: a training doesn't wait until what it needs is imported."""
    if name == "load":
        from trimtab.loading import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
