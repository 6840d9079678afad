"""A command that reports what it was started with, prints what it was told to, and ends.

Runs on Python 3.8 as well. Arguments: the file descriptor for the report, then JSON: `out` and
`err` (hexadecimal), `code` or `signal`; further arguments are only reported.
"""

import contextlib
import fcntl
import json
import os
import signal
import sys

_STATUS = "Umask Uid Gid Groups SigBlk SigIgn CapInh CapPrm CapEff NoNewPrivs Seccomp Cpus_allowed"


def report(pipe):
    return {
        "arguments": [os.fsencode(word).decode("latin-1") for word in sys.argv[3:]],
        "flags": str(sys.flags),
        "path": sys.path,
        "importer_cache": sorted(sys.path_importer_cache),
        "modules": sorted(sys.modules),
        "warnings": sys.warnoptions,
        "site": getattr(sys, "from_site", None),
        "user": getattr(sys, "from_user", None),
        "environment": sorted(read("/proc/self/environ").split("\0")),
        "limits": read("/proc/self/limits"),
        "status": [line for line in read("/proc/self/status").splitlines() if is_told(line)],
        "folder": folder(),
        "files": {number: opened(number) for number in range(600) if number != pipe},
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "oom": read("/proc/self/oom_score_adj"),
        "group": os.getpgrp() == os.getpid(),
        "terminal": read("/proc/self/stat").rpartition(")")[2].split()[4],
        "input": standard_input(),
    }


def read(path):
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib would be one more module
        return file.read().decode("latin-1")


def is_told(line):
    return line.partition(":")[0] in _STATUS.split()


def folder():
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError as error:
        return type(error).__name__


def opened(number):
    try:
        file = os.fstat(number)
    except OSError:
        return None
    kept = fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    kind = [file.st_dev, file.st_ino] if number > 2 else file.st_mode
    return [kind, kept, fcntl.fcntl(number, fcntl.F_GETFL)]


def standard_input():
    try:
        return os.read(0, 1000).decode("latin-1")
    except OSError:
        return None


def end(code=None, signal_number=None):
    if signal_number:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(signal_number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal_number])
        os.kill(os.getpid(), signal_number)
    os._exit(code)


def main():
    pipe, task = int(sys.argv[1]), json.loads(sys.argv[2])
    os.write(pipe, json.dumps(report(pipe)).encode())
    for number, name in ((1, "out"), (2, "err")):
        with contextlib.suppress(OSError):
            os.write(number, bytes.fromhex(task[name]))
    end(task["code"], task["signal"])


main()
