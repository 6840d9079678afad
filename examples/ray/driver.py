"""Train with Ray Train: `trimtab run -- python driver.py` on one machine."""

import os

from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer
from train import train  # your training loop, which each worker calls

workers = int(os.environ.get("WORKERS", "8"))
trainer = TorchTrainer(train, scaling_config=ScalingConfig(num_workers=workers, use_gpu=True))
trainer.fit()
