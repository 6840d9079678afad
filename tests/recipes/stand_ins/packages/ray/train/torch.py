import os
import subprocess
import sys
import time
from pathlib import Path


class TorchTrainer:
    def __init__(self, train_loop_per_worker, scaling_config):
        self.workers = scaling_config.num_workers

    def fit(self):
        """Ask the cluster for the workers; without a cluster, start one on this machine."""
        shared = Path(os.environ["RAY_SHARED"])
        if "SLURM_JOB_ID" not in os.environ:
            raylet = [sys.executable, "-m", "ray.raylet", "0", "1"]
            subprocess.run(["setsid", "--fork", *raylet], check=True)
        for rank in range(self.workers):
            (shared / f"asked-{rank}").touch()
        deadline = time.monotonic() + 60
        while len(list(shared.glob("done-*"))) < self.workers:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (shared / "over").touch()
