"""Libraries that are loaded when first used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.running_service import CHECKOUT

WEB = """
import sys
import webapp.web_server
import webapp.wsgi
assert "pandas" in sys.modules, "imported by what pages need"
assert "pandas.core" not in sys.modules, "loaded before somebody needs it"
"""
THREADS = """
import sys, threading
from webapp.service import late
late.load_when_used("pandas")
import pandas as pd
assert "pandas.core" not in sys.modules
started, sums = threading.Barrier(8), []
def use():
    started.wait()
    sums.append(int(pd.Series([1, 2]).sum()))
threads = [threading.Thread(target=use) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
assert sums == [3] * 8, sums
from pandas.core.frame import DataFrame
import pandas
assert pandas.DataFrame is DataFrame is pd.DataFrame
"""


def run(code: str, data_dir: Path) -> None:
    environment = os.environ | {
        "TRIMTAB_DATA_DIR": str(data_dir),
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
    }
    words = [sys.executable, "-W", "ignore", "-c", code]
    ended = subprocess.run(words, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_an_idle_web_server_has_not_loaded_pandas(tmp_path):
    run(WEB, tmp_path)


def test_several_threads_may_be_the_first_to_use_it(tmp_path):
    run(THREADS, tmp_path)
