"""`--keep-stderr`: what arrives on standard error, what is kept of it, and what never is."""

from __future__ import annotations

import os
import pty
import re
import signal
import string
import subprocess
import sys
import termios

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.kept_stderr import MOST_BYTES, LastLines, strip_escapes
from trimtab.redaction import REDACTED, redacted_lines

from tests.agent.conftest import trimtab_command

LETTERS = string.ascii_letters + string.digits
TOKENS = st.one_of(
    st.builds(
        "{}_{}".format,
        st.sampled_from(["hf", "ghp", "tt", "sk"]),
        st.text(LETTERS, min_size=20, max_size=40),
    ),
    st.builds(
        "AKIA{}".format, st.text(string.ascii_uppercase + string.digits, min_size=16, max_size=16)
    ),
)
WORDS = st.text(string.ascii_letters + string.digits + "._/-", min_size=8, max_size=30)
NAMED = st.sampled_from(
    [
        "password={}",
        "password: {}",
        "api_key = '{}'",
        '"token": "{}"',
        "--secret {}",
        "Authorization: Bearer {}",
        "https://me:{}@host/x",
        "AWS_SECRET_ACCESS_KEY={}",
        "{{'auth_token': '{}'}}",
    ]
)
AROUND = st.sampled_from(
    ["{}", "ValueError: {}", "  File x.py, line 3: {} (retry)", "[{}]", "\t{};"]
)


def kept(text: bytes, *secrets: str) -> list[str]:
    lines = LastLines()
    lines.add(text)
    return lines.read_redacted(secrets)


@given(TOKENS, AROUND)
def test_tokens_are_redacted_wherever_they_are(token, around):
    assert token not in "".join(kept(around.format(token).encode()))


@given(WORDS, NAMED, AROUND)
def test_values_with_the_name_of_a_secret_are_redacted(value, named, around):
    if "://" in named:
        value = value.replace("/", "%2F")
    line = around.format(named.format(f"zq{value}"))
    assert f"zq{value}" not in kept(line.encode())[0]


@given(st.text(min_size=8, max_size=60).filter(str.strip), st.integers(0, 60))
def test_values_of_secret_variables_are_redacted_even_between_escapes(value, at):
    """A program that colours its output may do so within the value."""
    plain = strip_escapes(value.replace("\r", " ").replace("\n", " ")).strip()
    if len(plain) < 8:
        return
    coloured = plain[:at] + "\x1b[31m" + plain[at:] + "\x1b[0m"
    assert plain not in "\n".join(kept(f"lost {coloured} here\n".encode(), plain))


@given(st.lists(st.binary(max_size=300), max_size=80), st.integers(1, 500))
def test_whatever_is_written_in_whatever_pieces_is_bounded_and_without_escapes(lines, size):
    stream = b"\n".join(lines)
    whole, pieces = LastLines(), LastLines()
    whole.add(stream)
    for at in range(0, len(stream), size):
        pieces.add(stream[at : at + size])
    found = pieces.read_redacted([])
    assert found == whole.read_redacted([])
    assert len(found) <= 50
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "".join(found))


def test_long_lines_and_many_are_cut_at_the_beginning():
    found = kept(b"\n".join(b"%d " % n + b"word " * 10_000 for n in range(200)))
    assert len(found) <= 50
    assert sum(len(line.encode()) + 1 for line in found) <= MOST_BYTES


def test_a_secret_that_is_cut_in_two_leaves_no_half():
    secret = "correct-horse-battery-staple"
    for room in range(16 * 1024 - 40, 16 * 1024 + 40):
        line = "x " + secret + " " + "y" * (room - len(secret))
        assert "battery" not in "".join(kept(line.encode(), secret))


def test_of_a_progress_bar_the_last_state_is_kept():
    bar = b"".join(b"\r%3d%%|###" % n for n in range(101))
    assert kept(b"begin\r\n" + bar + b"\nend") == ["begin", "100%|###", "end"]


def test_private_keys_and_homes_are_redacted_and_the_rest_stays():
    key = ["-----BEGIN RSA PRIVATE KEY-----", "MIIE short", "-----END RSA PRIVATE KEY-----"]
    trace = [
        "Traceback (most recent call last):",
        '  File "/home/ana/vision/train.py", line 12, in <module>',
        '  File "/root/.cache/x.py", line 1, in load',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79 GiB",
        "KeyError: 'user_id'",
        "/data/home/ana is no home",
    ]
    assert redacted_lines([*key, *trace]) == [
        *[REDACTED] * 3,
        trace[0],
        '  File "~/vision/train.py", line 12, in <module>',
        '  File "~/.cache/x.py", line 1, in load',
        *trace[3:],
    ]


SCRIPT = """
import os, sys
sys.stderr.write("key is " + os.environ["WANDB_API_KEY"] + "\\n\\x1b[31mred\\x1b[0m\\n")
print(os.isatty(2), flush=True)
raise RuntimeError("no such layer")
"""


def test_the_last_lines_are_uploaded_redacted_only_if_asked_for(trimtab, online, service):
    secret = {"WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567"}
    for options in ([], ["--keep-stderr"]):
        done = trimtab(online | secret, "run", *options, "--", sys.executable, "-c", SCRIPT)
        assert (done.stdout, done.returncode) == ("False\n", 1)
        assert done.stderr.startswith(
            f"key is {secret['WANDB_API_KEY']}\n\x1b[31mred\x1b[0m\nTraceb"
        )
        assert done.stderr.endswith("RuntimeError: no such layer\n")
        found = [event.data for event in service.events("stderr")]
        if not options:
            assert found == []
    assert [data["number"] for data in found] == list(range(len(found)))
    lines = [data["text"] for data in found]
    assert lines[:2] == [f"key is {REDACTED}", "red"]
    assert lines[-1] == "RuntimeError: no such layer"


SIZE = "import os; print(os.isatty(2), os.get_terminal_size(2), flush=True); os.write(2, b'a\\nb')"


def test_a_terminal_stays_a_terminal_of_the_same_size(online, service, tmp_path):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (31, 97))
    words = trimtab_command("run", "--keep-stderr", "--", sys.executable, "-c", SIZE)
    agent = subprocess.Popen(
        words, env=online, stdout=subprocess.PIPE, stderr=theirs, text=True, cwd=tmp_path
    )
    os.close(theirs)
    printed, _ = agent.communicate(timeout=60)
    assert printed == "True os.terminal_size(columns=97, lines=31)\n"
    assert os.read(ours, 100).startswith(b"a\r\nb")
    os.close(ours)
    assert [event.data["text"] for event in service.events("stderr")] == ["a", "b"]


def test_a_reader_that_goes_away_is_noticed_as_without_the_agent(online, tmp_path):
    script = "import os\nwhile True: os.write(2, b'x' * 1000)"
    words = trimtab_command("run", "--keep-stderr", "--", sys.executable, "-c", script)
    agent = subprocess.Popen(words, env=online, stderr=subprocess.PIPE, cwd=tmp_path)
    agent.stderr.read(5_000)
    agent.stderr.close()
    assert agent.wait(60) in (1, 128 + signal.SIGPIPE)


def test_what_holds_standard_error_open_does_not_hold_the_run(trimtab, online, service):
    done = trimtab(
        online, "run", "--keep-stderr", "--", "sh", "-c", "sleep 3 & echo late >&2; exit 3"
    )
    assert done.returncode == 3
    (event,) = service.events("stderr")
    assert event.data["text"] == "late"


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
def test_output_arrives_byte_for_byte(online, tmp_path, closed):
    script = "import os; os.write(2, bytes(range(256)) * 4000); os._exit(5)"
    words = trimtab_command("run", "--keep-stderr", "--", sys.executable, "-c", script)
    if closed:
        done = subprocess.run(
            ["sh", "-c", 'exec "$@" 2>&-', "sh", *words], env=online, cwd=tmp_path
        )
        assert done.returncode in (1, 5)
        return
    done = subprocess.run(words, env=online, cwd=tmp_path, capture_output=True)
    assert (done.stderr, done.returncode) == (bytes(range(256)) * 4000, 5)
