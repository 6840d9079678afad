"""Pythons that have MLflow: one that a variable names, else environments that are kept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.overhead_peers import install_package

VARIABLES = {"mlflow": "TRIMTAB_TEST_MLFLOW_PYTHON", "mlflow<3": "TRIMTAB_TEST_MLFLOW_2_PYTHON"}
"""Requirement -> variable: the current release, and the last one before version 3."""


RADT = "radt==0.2.30"


def python_with(requirement: str) -> str:
    """Return the Python of the bench's environment, which needs MLflow's server."""
    if named := os.environ.get(VARIABLES[requirement]):
        return named
    # The server of MLflow 2 starts with SQLAlchemy 2.0 only, and its client's traces end with an
    # OpenTelemetry of its time only.
    older = ("sqlalchemy<2.1", "opentelemetry-sdk<1.36", "opentelemetry-api<1.36")
    more = older if requirement == "mlflow<3" else ()
    return _kept(requirement, "psycopg[binary]", *more)


def python_with_radt() -> str:
    """Return a Python that has radT, which fails with pandas 3."""
    return _kept(RADT, "pandas<3")


def _kept(requirement: str, *more: str) -> str:
    kept = Path.home() / ".cache" / "trimtab-bench"
    kept.mkdir(parents=True, exist_ok=True)
    try:
        return install_package(requirement, kept, *more)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{requirement} can't be installed: {error}")
