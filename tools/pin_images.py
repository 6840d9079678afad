"""Pin the images of Dockerfile and docker-compose.yml to the digests that their tags have today.

`python -m tools.pin_images` needs Docker with buildx, and the network. Read the change before you
commit it: a digest names one build forever, so from then on nothing else is pulled.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FILES = ("Dockerfile", "docker-compose.yml")
PINNED = re.compile(r"(?P<name>[\w./-]+:[\w.-]+)@(?P<digest>sha256:[0-9a-f]{64})")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def main(folder: Path) -> int:
    """Rewrite the files in the folder. Raises CalledProcessError if an image isn't found."""
    digests: dict[str, str] = {}
    for path in (folder / name for name in FILES):
        text = path.read_text(encoding="utf-8")
        for found in PINNED.finditer(text):
            name = found["name"]
            digests[name] = digests.get(name) or _current_digest(name)
            sys.stdout.write(f"{name} {found['digest']} -> {digests[name]}\n")
        pinned = PINNED.sub(lambda found: f"{found['name']}@{digests[found['name']]}", text)
        path.write_text(pinned, encoding="utf-8")
    return 0


def _current_digest(name: str) -> str:
    """Return the digest of the image for all its platforms."""
    command = ["docker", "buildx", "imagetools", "inspect", name]
    command += ["--format", "{{.Manifest.Digest}}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if not DIGEST.fullmatch(said):
        raise ValueError(f"no digest of {name}: {said!r}")
    return said


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
