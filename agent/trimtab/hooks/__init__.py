"""The hook: measures a training process without a change of its code.

`trimtab run` puts the folder `injected` on PYTHONPATH. The `sitecustomize` in it runs the
`sitecustomize` that it hides, and then waits for the import of torch. Python started with -I, -E or
-S ignores PYTHONPATH, so it runs without the hook.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def environment(outer: Mapping[str, str], run_folder: Path) -> dict[str, str]:
    """The command's environment: `outer`, the run's folder, and the hook first on PYTHONPATH."""
    here = str(Path(__file__).parent / "injected")
    before = [part for part in outer.get("PYTHONPATH", "").split(os.pathsep) if part]
    path = os.pathsep.join([here, *(part for part in before if part != here)])
    return {**outer, "TRIMTAB_RUN_DIR": str(run_folder), "PYTHONPATH": path}
