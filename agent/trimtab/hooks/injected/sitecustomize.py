"""Runs at the start of every Python under `trimtab run`; loads the hook with torch or Keras.

Imports nothing that Python hasn't loaded already: a script without them pays for one dictionary
look-up per import. Errors here must not reach the script. Older Pythons, Python 2 too, have to be
able to read this file: they find it instead of their own `sitecustomize`.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` isn't loaded yet, and costs milliseconds
    from importlib.machinery import ModuleSpec  # noqa: F401
    from types import ModuleType  # noqa: F401
    from typing import Any, Optional  # noqa: F401

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib isn't loaded yet
_AGENT = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))  # noqa: PTH120
_SEEN = frozenset(
    (
        "torch.optim.optimizer",
        "torch.utils.data.dataloader",
        "torch.nn.modules.module",
        "torch.amp.autocast_mode",
        "torch.serialization",
        "torch.nn.parallel.distributed",
        "torch.distributed.checkpoint.state_dict_loader",
        "safetensors.torch",
        "lightning.pytorch.loops.evaluation_loop",
        "lightning.pytorch.trainer.trainer",
        "pytorch_lightning.loops.evaluation_loop",
        "pytorch_lightning.trainer.trainer",
        "transformers.trainer",
        "accelerate.accelerator",
        "accelerate.data_loader",
        "keras.src.callbacks.callback_list",
    )
)


class _Watcher:
    """Leaves finding to the other finders; calls the hook after one of these modules has run."""

    def find_spec(self, name, path=None, target=None):
        # type: (str, Any, Any) -> Optional[ModuleSpec]
        if name not in _SEEN:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                _patch_after(spec.loader)
                return spec
        return None


class _Agent:
    """Finds the package `trimtab` beside this file if the script's Python has none."""

    def find_spec(self, name, path=None, target=None):
        # type: (str, Any, Any) -> Optional[ModuleSpec]
        if name != "trimtab":
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [_AGENT], target)


def _patch_after(loader):
    # type: (Any) -> None
    """Keeps the loader; only this execution calls the hook at its end."""
    try:
        execute = loader.exec_module

        def exec_module(module):
            # type: (ModuleType) -> None
            del loader.exec_module
            execute(module)
            _patch(module)

        loader.exec_module = exec_module
    except Exception:
        return


def _patch(module):
    # type: (ModuleType) -> None
    try:
        from trimtab.hooks import patching

        patching.patch(module)
    except Exception:
        return


def _wait_for_torch():
    # type: () -> None
    environment = os.environ
    if environment.get("TRIMTAB_DISABLE") == "1" or not environment.get("TRIMTAB_RUN_DIR"):
        return
    if sys.version_info >= (3, 9):  # noqa: UP036 - the training's Python may be older than ours
        sys.meta_path.insert(0, _Watcher())
        sys.meta_path.append(_Agent())


def _run_hidden_sitecustomize():
    # type: () -> None
    """Run the hidden `sitecustomize`, whose errors `site` reports as it would without the hook.

    If there is none, the ImportError makes `site` forget this module, too.
    """
    mine = sys.modules.pop("sitecustomize")  # noqa: F841 - Python 2 clears what nobody holds
    sys.path[:] = [part for part in sys.path if part != _HERE]
    sys.path_importer_cache.pop(_HERE, None)
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401


_wait_for_torch()
_run_hidden_sitecustomize()
