"""A PyTorch training with checkpoints that continues where it was killed: `interrupted.py STEPS`.

Writes its process id to `pid`, and the number of each step to `steps` when it is done.
"""

import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

EVERY, STEP_SECONDS = 5, 0.25


def main(steps: int) -> None:
    torch.set_num_threads(1)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    done = 0
    if Path("model.pt").exists():
        saved = torch.load("model.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["step"]
    Path("pid").write_text(str(os.getpid()))
    for number in range(done + 1, steps + 1):
        time.sleep(STEP_SECONDS)
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        with Path("steps").open("a") as log:
            log.write(f"{number}\n")
        if number % EVERY == 0:
            states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**states, "step": number}, "new.pt")
            Path("new.pt").rename("model.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]))
