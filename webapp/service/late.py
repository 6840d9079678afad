"""Libraries that are loaded when first used, and not by each process that might use them.

Only pandas is worth it. Without its stand-in, a process with all of Django's modules takes 184 MB
instead of 152 and 2.0 s of CPU time to start instead of 1.8 (25 MB more that no other process
shares), and an idle service has three of them: `bench.start` allows it 450 MB, and it takes 349.

Modules go on importing pandas at their top: they get a stand-in, which loads the library at the
first access to a name in it.

The library itself is imported in the ordinary way, under the interpreter's import locks, so several
threads may be the first at once. `importlib.util.LazyLoader` has no lock before Python 3.12.2.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

FOR_MEASUREMENTS = ("pandas",)


class _StandIn(ModuleType):
    """Takes over the names of its library when asked for one of them."""

    def __getattr__(self, name: str) -> Any:
        library = _loaded(self)
        self.__dict__.update(library.__dict__)
        return getattr(library, name)


def _loaded(stand_in: ModuleType) -> ModuleType:
    name = stand_in.__name__
    _finder.names.discard(name)
    if sys.modules.get(name) is stand_in:
        sys.modules.pop(name, None)
    return importlib.import_module(name)


class _Finder(MetaPathFinder, Loader):
    """Finds stand-ins for the libraries that were named."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in self.names else None

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty for now: before the first access, the import machinery asks it for
        what it is to fill in.
        """
        module.__class__ = _StandIn


_finder = _Finder()


def load(*names: str) -> None:
    """Load the libraries now, before they are used."""
    for name in names:
        library = importlib.import_module(name)
        if isinstance(library, _StandIn):
            _loaded(library)


def load_when_used(*names: str) -> None:
    """Load the libraries when they are first used. Call this before anything imports them. One that
    is loaded or not installed stays as it is.
    """
    _finder.names |= {name for name in names if name not in sys.modules}
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
