"""Starts the tasks of all nodes here. Each node has its own temporary folder and machine id."""

import os
import subprocess
import sys
from pathlib import Path

nodes = int(os.environ["SLURM_JOB_NUM_NODES"])
each = int(os.environ["SLURM_NTASKS_PER_NODE"])
tasks = []
for rank in range(nodes * each):
    node, local = divmod(rank, each)
    temporary = Path(os.environ["TMPDIR"], f"node-{node}")
    temporary.mkdir(exist_ok=True)
    mine = {
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(node),
        "SLURM_NTASKS": str(nodes * each),
        "TMPDIR": str(temporary),
        "TRIMTAB_STATE_DIR": f"{temporary}/state",
        "TRIMTAB_MACHINE_ID": f"node-{node}",
    }
    tasks.append(subprocess.Popen(sys.argv[1:], env=os.environ | mine))
sys.exit(max([task.wait() for task in tasks]))
