"""`trimtab import s3://...`: asks the service to read it."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from trimtab import identity, options
from trimtab.cli import import_waiting
from trimtab.cli.arguments import say
from trimtab.transport import ServiceConnection

SCHEME = "s3://"
NOT_BEGUN, WRONG = 1, 2
_PATIENCE_SECONDS = 60.0


def ask(arguments: argparse.Namespace, said: dict[str, Any]) -> int:
    """Return the exit code."""
    server = options.server(arguments.url, arguments.token, os.environ)
    if not server.url or not server.token:
        say("no service is set. Set TRIMTAB_URL and TRIMTAB_TOKEN, or run `trimtab init`.")
        return WRONG
    document = {"source": arguments.path, **said["stated"]}
    if arguments.run:
        document["run"] = str(identity.run_id(server, {"TRIMTAB_RUN": arguments.run}))
    if said["describe"] is not None:
        document["describe"] = said["describe"]
    body = json.dumps(document).encode()
    answer = ServiceConnection(server, _PATIENCE_SECONDS).post(
        "imports", body, "application/json", {}
    )
    if answer.status != 202 or "url" not in answer.document:
        fix = str(answer.document.get("fix", "")) if answer.is_problem else ""
        say(f"{answer.problem} {fix}".strip())
        return NOT_BEGUN
    print(answer.document["url"], flush=True)
    return import_waiting.follow(server, str(answer.document.get("run")), arguments.wait)
