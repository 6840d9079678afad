"""Check a container whose first process is the web server, and end one that answers nothing.

`python -m webapp.service.health_check PORT`: Docker restarts what has ended, and only marks what is
unhealthy. Standard library only.
"""

from __future__ import annotations

import os
import sys
import time

from webapp.service import watchdog
from webapp.service.supervise import UNANSWERED_SECONDS
from webapp.service.web_health import Health

PATIENCE_SECONDS, FIRST_PROCESS = UNANSWERED_SECONDS, 1


def main(port: int) -> int:
    """Return 0 once `/healthz` answers, else 1 after the web server was ended."""
    host = f"127.0.0.1:{port}"
    health = Health("127.0.0.1", port, host, "http")
    until = time.monotonic() + PATIENCE_SECONDS
    while not health.is_200():
        if time.monotonic() > until:
            # The server's watchdog writes the stacks. While it still starts, the signal does
            # nothing.
            os.kill(FIRST_PROCESS, watchdog.HUNG)
            return 1
        time.sleep(0.5)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
