"""Checks the connection to the service, and the spool."""

from __future__ import annotations

from trimtab.checks.check import Check, CheckState
from trimtab.connection_test import connection_problem
from trimtab.options import Options
from trimtab.spool import open_spool, state_folder
from trimtab.spool.filesystem import is_network


def service(options: Options) -> Check:
    server = options.server
    if not server.url:
        return Check(
            "service",
            CheckState.MISSING,
            "no service is set",
            "all uploads; samples stay on this machine until `trimtab sync`",
            "set TRIMTAB_URL and TRIMTAB_TOKEN, or run `trimtab init`",
        )
    if not server.token:
        fix = "set TRIMTAB_TOKEN, or run `trimtab init`"
        return Check(
            "service",
            CheckState.WRONG,
            f"no token for {server.url}",
            "all uploads; samples stay on this machine",
            fix,
        )
    try:
        problem = connection_problem(server)
    except ValueError as error:
        problem = str(error)
    if problem:
        fix = "check the address, the token, proxies and SSL_CERT_FILE"
        return Check(
            "service", CheckState.WRONG, problem, "uploads; samples are kept until they work", fix
        )
    return Check("service", CheckState.FINE, f"{server.url} accepts the token")


def spool() -> Check:
    opened = open_spool()
    held = opened.contents()
    if opened.path is None:
        lost = "samples that aren't uploaded when a run ends"
        fix = "set TRIMTAB_STATE_DIR to a local folder"
        return Check("spool", CheckState.WRONG, f"in memory only: {opened.problem}", lost, fix)
    moved = " (because the home is on a network file system)" if is_network(state_folder()) else ""
    return Check(
        "spool", CheckState.FINE, f"{opened.path}{moved}, {held.unsent} waiting to be uploaded"
    )
