"""The spool: sealed segments on their way to the service."""

from trimtab.spool.place import open_spool, state_folder
from trimtab.spool.spool import CAP_BYTES, KEPT_SECONDS, Contents, Declared, Spool, Waiting

__all__ = [
    "CAP_BYTES",
    "KEPT_SECONDS",
    "Contents",
    "Declared",
    "Spool",
    "Waiting",
    "open_spool",
    "state_folder",
]
