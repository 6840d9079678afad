"""The modules that the hook patches. `injected/sitecustomize.py` waits for their import."""

from __future__ import annotations

from types import ModuleType

from trimtab.hooks import frameworks, pytorch

PATCHES = {**pytorch.patches, **frameworks.patches}


def patch(module: ModuleType) -> None:
    """Patch a module right after its import."""
    PATCHES[module.__name__](module)
