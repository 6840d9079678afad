"""A program that notes what it is called with."""

import json
import os
import sys
from pathlib import Path

with Path(os.environ["CALLS"]).open("a") as calls:
    calls.write(json.dumps([Path(sys.argv[0]).name, *sys.argv[1:]]) + "\n")
sys.exit(int(os.environ.get("CALL_FAILS", "0")))
