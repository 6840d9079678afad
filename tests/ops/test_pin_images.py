"""`python -m tools.pin_images`, with a program in place of Docker."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.running_service import CHECKOUT
from tools import pin_images

DOCKER = """#!/bin/sh
test "$1 $2 $3" = "buildx imagetools inspect" || exit 1
echo "$4" >> "$ASKED"
echo "sha256:{}"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in pin_images.FILES:
        shutil.copy(CHECKOUT / name, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    return tmp_path


def install_docker(folder: Path, digest: str) -> None:
    program = folder / "docker"
    program.write_text(DOCKER.format(digest))
    program.chmod(0o755)


def test_it_replaces_every_digest_and_nothing_else(folder: Path) -> None:
    before = {name: (folder / name).read_text() for name in pin_images.FILES}
    install_docker(folder, "ab" * 32)
    pin_images.main(folder)
    for name, text in before.items():
        after = (folder / name).read_text()
        assert after == re.sub(r"@sha256:[0-9a-f]{64}", "@sha256:" + "ab" * 32, text)
        assert after != text
    asked = (folder / "asked").read_text().split()
    assert len(asked) == len(set(asked)) == 5


def test_it_changes_nothing_when_docker_says_nonsense(folder: Path) -> None:
    install_docker(folder, "not a digest")
    with pytest.raises(ValueError, match="no digest of node:22-slim"):
        pin_images.main(folder)
    assert (folder / "Dockerfile").read_text() == (CHECKOUT / "Dockerfile").read_text()
