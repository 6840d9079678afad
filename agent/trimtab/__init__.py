"""Trimtab's agent measures training runs; these calls are for training scripts."""

from trimtab.sdk import epoch, log, phase, run, step, wrap

__version__ = "0.1.0"

__all__ = ["__version__", "epoch", "log", "phase", "run", "step", "wrap"]
