"""What is put into the training process without a change of its code.

`trimtab run` puts the folder `injected` on PYTHONPATH; the `sitecustomize` in it lets the one that
it hides run first and then waits for torch. Python started with -I, -E or -S reads no PYTHONPATH
and is measured from outside only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def environment(outer: Mapping[str, str], run_folder: Path) -> dict[str, str]:
    """What a watched command sees: `outer`, where to tell, and the hook before all other paths."""
    here = str(Path(__file__).parent / "injected")
    before = [part for part in outer.get("PYTHONPATH", "").split(os.pathsep) if part]
    path = os.pathsep.join([here, *(part for part in before if part != here)])
    return {**outer, "TRIMTAB_RUN_DIR": str(run_folder), "PYTHONPATH": path}
