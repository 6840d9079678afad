"""Trains for some seconds and then hangs for some: `python -m tests.processes.hang 10 60`."""

import sys
import time

from tests.processes.training import main

if __name__ == "__main__":
    main(float(sys.argv[1]))
    time.sleep(float(sys.argv[2]))
