"""Pythons that have MLflow: one that a variable names, else environments that are kept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.overhead_peers import installed

VARIABLES = {"mlflow": "TRIMTAB_TEST_MLFLOW_PYTHON", "mlflow<3": "TRIMTAB_TEST_MLFLOW_2_PYTHON"}
"""Requirement -> variable: the current release, and the last one before version 3."""


def python_with(requirement: str) -> str:
    """The same environment as the bench's, which needs MLflow's server."""
    if named := os.environ.get(VARIABLES[requirement]):
        return named
    kept = Path.home() / ".cache" / "trimtab-bench"
    kept.mkdir(parents=True, exist_ok=True)
    try:
        return installed(requirement, kept, "psycopg[binary]")
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"MLflow can't be installed: {error}")
