"""The wire format: what the agent uploads to the service.

A **segment** holds some seconds of all series of one node; a **declaration** describes the run and
its node. Both are self-describing and may arrive in any order, late, or twice. This package
is the one part of the agent that the service imports, so it needs the standard library only.
"""

from trimtab.wire.batch import LENGTH_BYTES, join_bodies, split_bodies, unpacked_bytes
from trimtab.wire.codec import PHASES, decode_segment, encode_segment
from trimtab.wire.declaration import (
    Declaration,
    Gpu,
    NodeFacts,
    Probe,
    decode_declaration,
    encode_declaration,
)
from trimtab.wire.limits import LIMITS, Limits, TooLargeError, WireError
from trimtab.wire.problems import (
    FINAL_PROBLEMS,
    PROBLEM_TYPE,
    PROBLEMS_PATH,
    is_final,
    is_import_quota,
)
from trimtab.wire.segment import (
    FIRST_ADDED,
    FIRST_PIECE,
    VERSION,
    Block,
    Event,
    Refusal,
    Segment,
    SessionClock,
    StepBlock,
    StepSummary,
)
from trimtab.wire.training_job import job_of_training

__all__ = [
    "FINAL_PROBLEMS",
    "FIRST_ADDED",
    "FIRST_PIECE",
    "LENGTH_BYTES",
    "LIMITS",
    "PHASES",
    "PROBLEMS_PATH",
    "PROBLEM_TYPE",
    "VERSION",
    "Block",
    "Declaration",
    "Event",
    "Gpu",
    "Limits",
    "NodeFacts",
    "Probe",
    "Refusal",
    "Segment",
    "SessionClock",
    "StepBlock",
    "StepSummary",
    "TooLargeError",
    "WireError",
    "decode_declaration",
    "decode_segment",
    "encode_declaration",
    "encode_segment",
    "is_final",
    "is_import_quota",
    "job_of_training",
    "join_bodies",
    "split_bodies",
    "unpacked_bytes",
]
