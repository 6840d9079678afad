"""Detects network file systems, on which SQLite's WAL and locks don't work.

Uses the names of mount points only: access to a dead network mount may hang forever.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

_NETWORK = re.compile(
    r"nfs4?|cifs|smb3|smbfs|lustre|beegfs|gpfs|ceph|afs|9p|glusterfs|orangefs|pvfs2|wekafs|panfs"
    r"|vboxsf|virtiofs|fuse\..+"
)
_MOST_LINKS = 40


def is_network(path: Path, mounts: dict[str, str] | None = None) -> bool:
    """Return whether `path` is on a network mount. Follows no symbolic link that is on one
    itself.
    """
    mounts = _mounts() if mounts is None else mounts
    rest = list(Path(os.path.abspath(path)).parts[1:])  # noqa: PTH100 - resolve() would look
    place, links = Path("/"), 0
    while rest:
        place /= rest.pop(0)
        if _is_on_network(place, mounts):
            if _is_on_network(place.joinpath(*rest), mounts):
                return True
        elif links < _MOST_LINKS and _is_link(place):
            links += 1
            target = Path(os.path.normpath(place.parent / place.readlink()))
            rest = [*target.parts[1:], *rest]
            place = Path("/")
    return False


def _is_link(place: Path) -> bool:
    """Return whether a place is a link; False also if it can't be read, as in another user's
    home.
    """
    with suppress(OSError):
        return place.is_symlink()
    return False


def _is_on_network(place: Path, mounts: dict[str, str]) -> bool:
    held = (mounts[str(folder)] for folder in (place, *place.parents) if str(folder) in mounts)
    return bool(_NETWORK.fullmatch(next(held, "")))


def _mounts() -> dict[str, str]:
    """Return the file system type by mount point; the last of several mounts at one point
    counts.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    mounts = {}
    for line in lines:
        before, _, after = line.partition(" - ")
        words = before.split(" ")
        if len(words) > 4 and after:
            mounts[words[4].replace("\\040", " ")] = after.split(" ")[0]
    return mounts
