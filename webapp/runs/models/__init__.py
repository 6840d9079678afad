"""Jobs, runs and their parts, down to the segments of samples."""

from webapp.runs.models.jobs import UNDO_DAYS, Job, MovedRun, Run, RunQuerySet, Training, began
from webapp.runs.models.nodes import Attempt, Node, Session
from webapp.runs.models.stored import Artefact, Chunk, Segment
from webapp.runs.models.values import RunField, RunValue

__all__ = [
    "UNDO_DAYS",
    "Artefact",
    "Attempt",
    "Chunk",
    "Job",
    "MovedRun",
    "Node",
    "Run",
    "RunField",
    "RunQuerySet",
    "RunValue",
    "Segment",
    "Session",
    "Training",
    "began",
]
