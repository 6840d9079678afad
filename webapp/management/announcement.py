"""The message of a service that is ready: its address, and the two ways in."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from django.conf import settings

from webapp import private_files
from webapp.accounts.models import Token, Workspace, digest
from webapp.accounts.setup import first_workspace, new_token, sign_in_link
from webapp.service.stack import log_folder, shorten_path

MACHINE = (
    "A run has a price if its machine is known. EC2, SageMaker, Google Cloud and Azure tell it;",
    "elsewhere name it after `run`, as your provider bills it:",
    "    --provider lambda --region us-west-2 --instance-type gpu_1x_a100",
    "For machines of your own, set USD per GPU-hour under Prices, Your rates.",
)


def announce(descriptor: int) -> None:
    """Write the message for the supervisor, which prints it once all processes are ready."""
    with os.fdopen(descriptor, "w", encoding="utf-8") as listener:
        listener.write(_announcement(settings.BASE_URL))


def _announcement(url: str) -> str:
    data, logs = shorten_path(Path(settings.DATA_DIR)), shorten_path(log_folder())
    folders = f"Data in {data}, logs in {logs}. Ctrl-C stops everything.\n"
    return f"\nTrimtab runs at {url}\n\n{welcome(url)}\n{folders}"


def welcome(url: str) -> str:
    """Return a link for a person, and a command for a training run."""
    workspace = first_workspace()
    return "\n".join(
        [
            "Sign in (one-time link, valid for 24 hours):",
            f"    {sign_in_link(workspace, url)}",
            "Measure a training run (put this in front of your training command):",
            f"    {agent_command(url, agent_token(workspace))}",
            *MACHINE,
        ]
    )


def agent_command(url: str, token: str) -> str:
    trimtab = shorten_path(Path(sys.executable).with_name("trimtab"))
    return f"TRIMTAB_URL={url} TRIMTAB_TOKEN={token} {shlex.quote(trimtab)} run -- python train.py"


def agent_token(workspace: Workspace) -> str:
    """Return the token of agents on this machine: kept beside the data, created again once it is
    revoked.
    """
    path = Path(settings.DATA_DIR) / "agent-token"
    plain = path.read_text(encoding="utf-8") if path.exists() else ""
    known = Token.objects.filter(workspace=workspace, digest=digest(plain)).first()
    if known is not None and known.is_valid:
        return plain
    plain = new_token(workspace, "Agents on this machine", [Token.INGEST])
    private_files.write_durably(path, plain)
    return plain
