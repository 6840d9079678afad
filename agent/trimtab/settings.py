"""The settings that `trimtab init` saves: one service per user."""

from __future__ import annotations

import json
import os
from pathlib import Path

from trimtab.identity import ServiceAccess


def path() -> Path:
    """Return $XDG_CONFIG_HOME/trimtab/service.json, or else ~/.config/trimtab/service.json."""
    home = os.environ.get("HOME") or "/nonexistent"
    base = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return Path(base) / "trimtab" / "service.json"


def save_server(server: ServiceAccess) -> Path:
    """Save the service in a file that only the user can read. Returns its path. Raises OSError."""
    place = path()
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = place.with_suffix(f".{os.getpid()}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"url": server.url, "token": server.token}, file)
    draft.replace(place)
    return place


def saved_server() -> ServiceAccess:
    """Return the saved service; empty if none is saved or the file can't be read."""
    try:
        document = json.loads(path().read_text())
        return ServiceAccess(str(document["url"]), str(document["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return ServiceAccess()
