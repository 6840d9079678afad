"""A command finds the same surroundings and leaves the same traces, with `trimtab run` and without.

docs/agent.md ("What the command sees") names what differs; nothing else may.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from trimtab import hooks

from tests.agent.conftest import trimtab_command
from tests.agent.interpreters import HOOK as OLDEST
from tests.agent.interpreters import interpreters

PROBE = Path(__file__).with_name("probe.py")
REPORT, FIRST, SECOND = 509, 517, 540
"""File descriptors that the command inherits: numbers that nothing else has."""
OURS = str(Path(hooks.__file__).parent / "injected")
MIB = 2**20
SITE, USER = "site", "user"
LOW_FILES = (12, 20, 31, 37)


@dataclass(frozen=True)
class Surroundings:
    """The way in which a command is started, and what it does."""

    python: str = next(reversed(interpreters(OLDEST).values()))
    flags: tuple[str, ...] = ()
    python_path: str | None = None
    variables: dict[str, str | bytes] = field(default_factory=dict)
    words: tuple[bytes, ...] = ()
    ignored: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    inherited: frozenset[int] = frozenset()
    limits: dict[int, tuple[int, int]] = field(default_factory=dict)
    umask: int = 0o22
    folder: str = "there"
    has_user_site: bool = False
    given: bytes = b""
    out: bytes = b""
    err: bytes = b""
    code: int = 0
    signal: int | None = None

    def is_possible(self) -> bool:
        """Return whether it can start: Python itself doesn't if it can't make a part of PYTHONPATH
        absolute.
        """
        parts = (self.python_path or "/").split(os.pathsep)
        return self.folder == "there" or all(part.startswith(("/", SITE)) for part in parts)

    def is_tight(self) -> bool:
        """Return whether the agent may say that it can't measure."""
        files = self.limits.get(resource.RLIMIT_NOFILE, (1024, 1024))[1]
        return files < 64 or resource.RLIMIT_FSIZE in self.limits


def maybe(choices: st.SearchStrategy[Any], default: Any) -> st.SearchStrategy[Any]:
    """Draw mostly the default, so that a failure shows what matters."""
    return st.one_of(st.just(default), st.just(default), choices)


def some(*values: int) -> st.SearchStrategy[frozenset[int]]:
    return maybe(st.frozensets(st.sampled_from(values), min_size=1), frozenset())


PYTHON_PATHS = st.lists(
    st.sampled_from(["", "/lib", "lib", ".", "..", SITE, "/nowhere", "lib"]), max_size=4
).map(os.pathsep.join)
VARIABLES = st.fixed_dictionaries(
    {},
    optional={
        "PYTHONWARNINGS": st.sampled_from(["error", "default", "ignore", "error::ImportWarning"]),
        "PYTHONSAFEPATH": st.sampled_from(["1", ""]),
        "PYTHONNOUSERSITE": st.just("1"),
        "PYTHONHASHSEED": st.sampled_from(["0", "4711", "random"]),
        "PYTHONDONTWRITEBYTECODE": st.just("1"),
        "PYTHONUTF8": st.sampled_from(["0", "1"]),
        "PYTHONOPTIMIZE": st.just("2"),
        "PYTHONCOERCECLOCALE": st.just("0"),
        "LC_ALL": st.sampled_from(["C", "POSIX", "C.UTF-8", "xx_YY.UTF-8"]),
        "LC_CTYPE": st.sampled_from(["C", "", "C.UTF-8"]),
        "LANG": st.sampled_from(["C", "C.UTF-8", "de_DE.UTF-8"]),
        "ODD": st.sampled_from([b"caf\xe9", "naïve", ""]),
    },
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        resource.RLIMIT_NOFILE: st.sampled_from(
            [*((n, n) for n in LOW_FILES), (40, 40), (64, 64), (20, 256), (700, 1024)]
        ),
        resource.RLIMIT_FSIZE: st.sampled_from([(0, 0), (4096, 8192)]),
        resource.RLIMIT_AS: st.sampled_from([(512 * MIB, 1024 * MIB)]),
        resource.RLIMIT_STACK: st.sampled_from([(1 * MIB, 16 * MIB)]),
        resource.RLIMIT_CPU: st.sampled_from([(60, 120)]),
    },
)
DEADLY = (
    signal.SIGTERM,
    signal.SIGKILL,
    signal.SIGSEGV,
    signal.SIGABRT,
    signal.SIGUSR1,
    signal.SIGINT,
    signal.SIGPIPE,
    signal.SIGRTMIN,
)
FLAGS = st.lists(
    st.sampled_from(["-I", "-E", "-S", "-s", "-B", "-u", "-Werror", "-Xutf8"]),
    max_size=2,
    unique=True,
)
SURROUNDINGS = st.builds(
    Surroundings,
    python=st.sampled_from(list(interpreters(OLDEST).values())),
    flags=maybe(FLAGS.map(tuple), ()),
    python_path=st.one_of(st.none(), PYTHON_PATHS),
    variables=maybe(VARIABLES, {}),
    words=st.lists(st.sampled_from([b"--lr", b"\xff\xfe", b"", b"a b", b"--"]), max_size=2).map(
        tuple
    ),
    ignored=some(signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1),
    blocked=some(signal.SIGTERM, signal.SIGUSR2, signal.SIGCHLD, signal.SIGRTMIN + 2),
    closed=some(0, 1, 2),
    inherited=some(FIRST, SECOND),
    limits=maybe(LIMITS, {}),
    umask=st.sampled_from([0o22, 0, 0o77, 0o777]),
    folder=st.sampled_from(["there", "there", "deleted", "unreadable"]),
    has_user_site=st.booleans(),
    given=st.binary(max_size=20),
    out=st.binary(max_size=20),
    err=st.binary(max_size=20),
    code=st.sampled_from([0, 0, 1, 2, 3, 127, 255]),
    signal=maybe(st.sampled_from([int(number) for number in DEADLY]), None),
).filter(Surroundings.is_possible)


@dataclass(frozen=True)
class Traces:
    report: dict[str, Any]
    out: bytes
    err: bytes
    code: int


class Stage:
    """A folder in which commands are started, always in the same way."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.place = root / "place"
        self.state = root / "state"
        self.result = root / "result.json"
        (root / "lib").mkdir()
        (root / SITE).mkdir()
        (root / SITE / "sitecustomize.py").write_text("import sys\nsys.from_site = __file__\n")
        for major, minor in interpreters(OLDEST):
            user = root / USER / "lib" / f"python{major}.{minor}" / "site-packages"
            user.mkdir(parents=True)
            (user / "usercustomize.py").write_text("import sys\nsys.from_user = __file__\n")
        (root / "tmp").mkdir()

    def traces(self, how: Surroundings, around: list[str]) -> Traces:
        """Return the traces of the command with `around` before it."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        self.result.unlink(missing_ok=True)
        reading, writing = os.pipe()
        task = {"out": how.out.hex(), "err": how.err.hex(), "code": how.code, "signal": how.signal}
        command = [how.python, *how.flags, str(PROBE), str(REPORT), json.dumps(task), *how.words]
        with subprocess.Popen(
            [*around, *command],
            env=self._environment(how),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=False,
            start_new_session=True,
            preexec_fn=lambda: self._prepare(how, writing),
        ) as process:
            os.close(writing)
            out, err = process.communicate(how.given, timeout=240)
        with os.fdopen(reading, "rb") as pipe:
            report = json.loads(pipe.read() or "{}")
        return Traces(report, out, err, process.returncode)

    def _environment(self, how: Surroundings) -> dict[str, str | bytes]:
        variables: dict[str, str | bytes] = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "TMPDIR": str(self.root / "tmp"),
            "TRIMTAB_STATE_DIR": str(self.state),
            "TRIMTAB_METADATA": "off",
            "TRIMTAB_RESULT_FILE": str(self.result),
            **how.variables,
        }
        if how.has_user_site:
            variables["PYTHONUSERBASE"] = str(self.root / USER)
        if how.python_path is not None:
            parts = how.python_path.split(os.pathsep)
            site = str(self.root / SITE)
            variables["PYTHONPATH"] = os.pathsep.join(site if p == SITE else p for p in parts)
        return variables

    def _prepare(self, how: Surroundings, report: int) -> None:
        """Prepare the new process, before it becomes the command."""
        os.dup2(report, REPORT)
        for number in how.inherited:
            os.dup2(os.open(self.root / SITE, os.O_RDONLY), number)
        for number in how.closed:
            os.close(number)
        os.umask(how.umask)
        os.chdir(self.place)
        if how.folder == "deleted":
            self.place.rmdir()
        elif how.folder == "unreadable":
            self.place.chmod(0)
        for number in how.ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, how.blocked)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for kind, pair in how.limits.items():
            resource.setrlimit(kind, pair)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("stage"))


def _is_unchanged(stage: Stage, how: Surroundings) -> None:
    alone = stage.traces(how, [])
    assert alone.report, alone.err
    measured = stage.traces(how, trimtab_command("run", "--"))
    assert _less_ours(measured.report) == _less_ours(alone.report)
    assert measured.out == alone.out
    ours = re.findall(rb"trimtab: [^\n]*\n", measured.err) if how.is_tight() else []
    assert len(ours) <= 2
    for line in ours:
        assert b"measured" in line or b"memory only" in line
    assert re.sub(rb"trimtab: [^\n]*\n", b"", measured.err) == alone.err
    assert measured.code == (alone.code if alone.code >= 0 else 128 - alone.code)
    if not how.is_tight():
        assert json.loads(stage.result.read_text())["spooled"] == 1


def _less_ours(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report without what docs/agent.md says that the agent adds."""
    variables = dict(each.split("=", 1) for each in report["environment"] if each)
    for added in ("TRIMTAB_RUN_DIR", "MLFLOW_RUN_CONTEXT"):
        variables.pop(added, None)
    path = variables.get("PYTHONPATH", "")
    if path.split(os.pathsep)[0] == OURS:
        path = path[len(OURS) + 1 :]
    if path or "PYTHONPATH" in variables:
        variables["PYTHONPATH"] = path
    if not path:
        variables.pop("PYTHONPATH", None)
    without_site = "no_site=1" in report["flags"]
    paths = [part for part in report["path"] if not (without_site and part == OURS)]
    cache = [part for part in report["importer_cache"] if not (without_site and part == OURS)]
    return {**report, "environment": variables, "path": paths, "importer_cache": cache}


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(how=SURROUNDINGS)
@example(how=Surroundings(python_path=":/lib"))
@example(how=Surroundings(limits={resource.RLIMIT_NOFILE: (20, 20)}, code=3, err=b"\xff"))
@example(how=Surroundings(variables={"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"}))
@example(how=Surroundings(ignored=frozenset({signal.SIGCHLD}), code=5))
@example(how=Surroundings(closed=frozenset({0, 1, 2}), folder="deleted", python_path=SITE))
def test_a_command_can_not_tell_that_it_is_measured(stage, how):
    _is_unchanged(stage, how)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(how=SURROUNDINGS)
def test_no_command_can_tell_that_it_is_measured(stage, how):
    _is_unchanged(stage, how)
