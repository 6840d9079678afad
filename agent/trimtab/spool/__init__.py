"""The spool: sealed segments and artefacts that wait for upload."""

from trimtab.spool.artefacts import MOST_BYTES as MOST_ARTEFACT_BYTES
from trimtab.spool.artefacts import Artefact
from trimtab.spool.dead import Dead
from trimtab.spool.location import open_spool, state_folder
from trimtab.spool.spool import (
    CAP_BYTES,
    KEPT_SECONDS,
    Contents,
    DeclarationUpload,
    Spool,
    WaitingSegment,
)

__all__ = [
    "CAP_BYTES",
    "KEPT_SECONDS",
    "MOST_ARTEFACT_BYTES",
    "Artefact",
    "Contents",
    "Dead",
    "DeclarationUpload",
    "Spool",
    "WaitingSegment",
    "open_spool",
    "state_folder",
]
