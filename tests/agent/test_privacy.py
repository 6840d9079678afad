"""Secrets stay on the machine, whichever way they come near the spool."""

from __future__ import annotations

import gzip
import sqlite3
import sys
import time
from pathlib import Path

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLE",
    "HF_TOKEN": "hf_abcdefghijklmnopqrstuvwx",
    "DB_PASSWORD": "correct horse battery",
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
}
ORDINARY = {"MY_SETTING": "plainly-visible-value-9317", "USER_NAME_IN_FULL": "Ana Example-9317"}

SCRIPT = """
import os, trimtab
trimtab.run(key=os.environ["WANDB_API_KEY"], note=f"using {os.environ['DB_PASSWORD']}", lr=0.1)
trimtab.log(loss=1.0)
"""


def _kept(state: Path) -> bytes:
    """Return everything in the spool, unpacked."""
    found = b"".join(path.read_bytes() for path in state.iterdir() if path.is_file())
    with sqlite3.connect(state / "spool.sqlite3") as rows:
        for table, column in (("segments", "body"), ("sessions", "declaration")):
            for (body,) in rows.execute(f"SELECT {column} FROM {table}"):  # noqa: S608
                found += gzip.decompress(body)
    return found


def test_secrets_in_arguments_and_environment_never_reach_the_spool(trimtab, environment, tmp_path):
    words = [sys.executable, "-c", SCRIPT, *SECRETS.values()]
    words += ["--password", "hunter2-9317", "--url=https://me:hunter3-9317@host/x"]
    words += ["--param", f"token={SECRETS['HF_TOKEN']}"]
    options = ["--param", f"api_key={SECRETS['HF_TOKEN']}", "--param", "lr=0.1"]
    done = trimtab(environment | SECRETS | ORDINARY, "run", *options, "--", *words)
    assert done.returncode == 0, done.stderr
    kept = _kept(tmp_path / "state")
    assert b'"lr":0.1' in kept
    for secret in (*SECRETS.values(), "hunter2-9317", "hunter3-9317"):
        assert secret.encode() not in kept
    for value in ORDINARY.values():
        assert value.encode() not in kept, "the environment isn't sent at all"


def test_words_of_any_length_are_looked_through_at_once_and_kept_in_part(trimtab, online, service):
    """Redacting them must not hold the training up; what is cut off must not be half a secret."""
    secret = SECRETS["WANDB_API_KEY"]
    words = ["y" * 100_000, *["x" * 1_000] * 1_000, "z " * 990 + f"--key={secret} " + "z " * 9_000]
    began = time.monotonic()
    script = "echo $#; exit 4"
    done = trimtab(online, "run", "--", "bash", "-c", script, "bash", words[-1], *words[:-1])
    assert (done.stdout, done.returncode) == ("1002\n", 4)
    assert time.monotonic() - began < 5
    declared = service.declarations[0].command
    assert len(declared) == 500
    assert max(map(len, declared)) == 2_000
    assert secret[:8] not in "".join(declared)


def test_the_spool_of_one_user_is_closed_to_others(trimtab, environment, tmp_path):
    trimtab(environment, "run", "--", "true")
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
