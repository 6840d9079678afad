"""The agent as a wheel, so that a training machine can install it from the service.

The first request makes setuptools, which is in the locked environment, build the wheel. It is kept
in the data folder until the agent's code changes. The same code makes the same file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

_AGENT = settings.BASE_DIR / "agent"
_BUILD = "import sys, setuptools.build_meta as backend; backend.build_wheel(sys.argv[1])"
_BUILD_SECONDS = 60
_EPOCH = "315532800"
"""1980, the earliest date that a zip archive can hold: the same for every file of every build."""


def name() -> str:
    """Return the file name that pip requires: it holds version and platform."""
    project = tomllib.loads((_AGENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"{project['name']}-{project['version']}-py3-none-any.whl"


def address() -> str:
    """Return the URL to give to `pip install`."""
    return f"{settings.BASE_URL}/agent/{name()}"


def path() -> Path:
    """Return the built wheel. Two builds at the same time make the same file."""
    wheel = Path(settings.DATA_DIR) / "agent-wheels" / _digest() / name()
    if not wheel.exists():
        with tempfile.TemporaryDirectory(dir=settings.DATA_DIR) as place:
            built = _built(Path(place))
            wheel.parent.mkdir(parents=True, exist_ok=True)
            built.replace(wheel)
    return wheel


def _digest() -> str:
    digest = hashlib.sha256()
    for source in _sources():
        digest.update(f"{source.relative_to(_AGENT)}\0".encode() + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _sources() -> Iterator[Path]:
    yield _AGENT / "pyproject.toml"
    yield from sorted((_AGENT / "trimtab").rglob("*.py"))


def _built(place: Path) -> Path:
    """Build the wheel in a copy: setuptools writes beside the sources, which may be read-only."""
    copy, out = place / "agent", place / "out"
    out.mkdir()
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(_AGENT, copy, ignore=ignored)
    subprocess.run(
        [sys.executable, "-c", _BUILD, str(out)],
        cwd=copy,
        env=os.environ | {"SOURCE_DATE_EPOCH": _EPOCH},
        check=True,
        capture_output=True,
        timeout=_BUILD_SECONDS,
    )
    return out / name()
