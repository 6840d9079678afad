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
    """Return the command's environment: `outer`, the run's folder, and the hook first on
    PYTHONPATH.

    The rest of PYTHONPATH stays as it is: an empty part means the working folder.
    """
    here = str(Path(__file__).absolute().parent / "injected")
    before = outer.get("PYTHONPATH", "")
    if before.split(os.pathsep)[0] != here:
        before = f"{here}{os.pathsep}{before}" if before else here
    return {**outer, "TRIMTAB_RUN_DIR": str(run_folder), "PYTHONPATH": before}
