"""Whether samples reach the service, and are kept until they do."""

from __future__ import annotations

from trimtab.checks.check import Check, State
from trimtab.connection_test import connection_problem
from trimtab.options import Options
from trimtab.spool import open_spool, state_folder
from trimtab.spool.filesystem import is_network


def service(options: Options) -> Check:
    server = options.server
    if not server.url:
        return Check(
            "service",
            State.MISSING,
            "no address is known",
            "everything: samples stay on this machine until `trimtab sync`",
            "set TRIMTAB_URL and TRIMTAB_TOKEN, or call `trimtab init`",
        )
    if not server.token:
        fix = "set TRIMTAB_TOKEN, or call `trimtab init`"
        return Check("service", State.WRONG, f"no token for {server.url}", "every upload", fix)
    try:
        problem = connection_problem(server)
    except ValueError as error:
        problem = str(error)
    if problem:
        fix = "check the address, the token, proxies and SSL_CERT_FILE"
        return Check("service", State.WRONG, problem, "uploads; samples are kept meanwhile", fix)
    return Check("service", State.FINE, f"{server.url} takes this token")


def spool() -> Check:
    opened = open_spool()
    held = opened.contents()
    if opened.path is None:
        lost = "what isn't uploaded when a run ends"
        fix = "name a local folder in TRIMTAB_STATE_DIR"
        return Check("spool", State.WRONG, f"in memory only: {opened.problem}", lost, fix)
    moved = " (the home is on the network)" if is_network(state_folder()) else ""
    return Check("spool", State.FINE, f"{opened.path}{moved}, {held.unsent} waiting")
