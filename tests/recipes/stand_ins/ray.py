"""`ray symmetric-run`: each node's daemon starts workers; the first node also runs the driver."""

import os
import subprocess
import sys
import time
from pathlib import Path

over, node = Path(os.environ["RAY_SHARED"], "over"), os.environ["SLURM_NODEID"]
assert sys.argv[1:7] == ["symmetric-run", "--address", "node-0:6379", "--min-nodes", "2", "--"]
raylet = [sys.executable, "-m", "ray.raylet", node, "2"]
subprocess.run(["setsid", "--fork", *raylet], check=True)
if node == "0":
    sys.exit(subprocess.call(sys.argv[7:]))
deadline = time.monotonic() + 60
while not over.exists() and time.monotonic() < deadline:
    time.sleep(0.05)
