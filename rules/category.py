"""Categories, by which rules are listed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Category:
    """A rule that fits none of these declares its own."""

    id: str
    title: str
    position: int
    """Lower positions are listed first."""


TIME = Category("time", "Wasted time", 10)
DATA = Category("data", "Waiting for data", 20)
GPU = Category("gpu", "GPU utilisation", 30)
STEPS = Category("steps", "Steps", 40)
SIZING = Category("sizing", "Machine size", 50)
OVERVIEW = Category("overview", "Overviews", 60)
