"""Starts the ranks of one node with torchrun's variables; its options may be PET_* variables."""

import argparse
import os
import subprocess
import sys


def option(name, default):
    return {"default": os.environ.get(f"PET_{name}", default)}


parser = argparse.ArgumentParser()
parser.add_argument("--standalone", action="store_true")
parser.add_argument("--nnodes", type=int, **option("NNODES", "1"))
parser.add_argument("--nproc-per-node", type=int, **option("NPROC_PER_NODE", "1"))
parser.add_argument("--rdzv-id", **option("RDZV_ID", "none"))
parser.add_argument("--rdzv-backend")
parser.add_argument("--rdzv-endpoint")
parser.add_argument("script")
known, words = parser.parse_known_args()
node = int(os.environ.get("PET_NODE_RANK") or os.environ.get("SLURM_NODEID") or 0)
ranks = []
for local in range(known.nproc_per_node):
    mine = {
        "RANK": str(node * known.nproc_per_node + local),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(known.nnodes * known.nproc_per_node),
        "TORCHELASTIC_RUN_ID": known.rdzv_id,
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    command = [sys.executable, known.script, *words]
    ranks.append(subprocess.Popen(command, env=os.environ | mine))
sys.exit(max([rank.wait() for rank in ranks]))
