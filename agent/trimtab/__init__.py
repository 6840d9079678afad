"""Trimtab's agent: measures a training run; and the calls that a training script may make."""

from trimtab.sdk import epoch, log, phase, run, step, wrap

__version__ = "0.1.0"

__all__ = ["__version__", "epoch", "log", "phase", "run", "step", "wrap"]
