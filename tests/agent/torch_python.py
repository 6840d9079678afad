"""Finds PyTorch: in this environment, or in the one that a variable names."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

PYTHON = os.environ.get("TRIMTAB_TEST_TORCH_PYTHON") or sys.executable
"""The training's Python need not be the agent's; no Trimtab has to be installed in it."""

_missing = sys.executable == PYTHON and importlib.util.find_spec("torch") is None
_REASON = "no torch: install it, or name a Python that has it in TRIMTAB_TEST_TORCH_PYTHON"

NEEDS_TORCH = [pytest.mark.torch, pytest.mark.skipif(_missing, reason=_REASON)]
"""The `pytestmark` of a module whose tests train with PyTorch."""
