import json
import os
from pathlib import Path


class PyTorch:
    def __init__(self, **options):
        self.options = options

    def fit(self, inputs, wait):
        with Path(os.environ["CALLS"]).open("a") as calls:
            calls.write(json.dumps(self.options) + "\n")
