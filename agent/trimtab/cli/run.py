"""`trimtab run -- CMD`: runs the command, measures it, and exits as it did."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trimtab import options as chosen
from trimtab.cli.arguments import Commands, add_server_arguments, say, say_count
from trimtab.identity import Server, pairs, shortened
from trimtab.session import Session
from trimtab.supervise import Command, Ending, failure_code

_UPLOAD_SECONDS = 5.0
"""The longest that the end of a run may be held up."""
_SHORTEST_INTERVAL_SECONDS = 0.1
_LONGEST_INTERVAL_SECONDS = 5.0


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "run", help="run a training command and measure it", usage="trimtab run [options] -- CMD"
    )
    add_server_arguments(parser)
    parser.add_argument("--job", help="name of the job; default git repository/script path")
    parser.add_argument("--run", help="run id or any name shared by the nodes of one run")
    parser.add_argument("--owner", help="who answers for the run")
    parser.add_argument("--tag", action="append", default=[], metavar="K=V")
    parser.add_argument("--param", action="append", default=[], metavar="K=V")
    parser.add_argument("--instance-type", help="the machine's type, as it is billed")
    parser.add_argument("--region")
    parser.add_argument("--zone")
    parser.add_argument("--provider", help="aws, gcp, ...")
    parser.add_argument("--service", help="EC2, SageMaker training, ...")
    parser.add_argument("--purchase-option", choices=("on_demand", "spot", "reserved"))
    parser.add_argument("--owns-machine", action="store_true", help="the machine runs only this")
    parser.add_argument("--interval", type=_interval, default=0.5, metavar="SECONDS")
    parser.add_argument("--result-file", type=Path, help="write what happened as JSON")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not words:
        say("nothing to run. Use trimtab run [options] -- CMD.")
        return 2
    began = time.monotonic()
    session = _session(words, arguments)
    environment = {**os.environ, "TRIMTAB_RUN_DIR": str(session.folder)} if session else os.environ
    try:
        command = Command(words, environment)
    except OSError as error:
        say(f"{words[0]}: {error.strerror}")
        if session:
            session.clean_up()
        return failure_code(error)
    if session:
        _started(session, command)
    ending = command.wait()
    if session:
        _ended(session, ending, time.monotonic() - began, arguments)
    return ending.exit_code


def _session(words: Sequence[str], arguments: argparse.Namespace) -> Session | None:
    """None where measuring is impossible or not wanted: the command runs all the same."""
    if os.environ.get("TRIMTAB_DISABLE") == "1":
        return None
    try:
        environment = dict(os.environ)
        if arguments.run:
            environment["TRIMTAB_RUN"] = arguments.run
        return Session(words, _options(arguments), environment, say)
    except Exception as error:
        say(f"the command runs without being measured: {error}")
        return None


def _started(session: Session, command: Command) -> None:
    try:
        session.start(command.pid)
    except Exception as error:
        say(f"the command is not fully measured: {error}")
    if session.spool.path is None:
        say(f"samples are kept in memory only: {session.spool.problem}")


def _ended(session: Session, ending: Ending, seconds: float, arguments: argparse.Namespace) -> None:
    try:
        session.finish(ending, _UPLOAD_SECONDS)
        server = _options(arguments).server
        _report(session, ending, seconds, server, arguments.result_file)
        waiting = session.waiting
        if waiting and session.spool.path is None:
            say(f"lost with the memory they were kept in: {say_count(waiting, 'upload')}")
        elif waiting and server.url:
            _leave_drainer(server)
    except Exception as error:
        say(f"the end of the run was not fully recorded: {error}")


def _report(
    session: Session, ending: Ending, seconds: float, server: Server, result_file: Path | None
) -> None:
    uploaded = session.uploader.taken if session.uploader else 0
    spooled = session.spool.contents([str(session.id)]).waiting
    url = f"{server.url}/runs/{session.run_id}" if server.url else ""
    result = {
        "run_id": str(session.run_id),
        "url": url,
        "exit_code": ending.exit_code,
        "seconds": round(seconds, 3),
        "uploaded": uploaded,
        "spooled": spooled,
    }
    path = result_file or os.environ.get("TRIMTAB_RESULT_FILE")
    if path:
        with suppress(OSError):
            Path(path).write_text(json.dumps(result) + "\n")
    if sys.stderr.isatty():
        left = f", {spooled} kept for later" if spooled else ""
        sent = say_count(uploaded, "segment")
        where = f", {url}" if url else ""
        say(f"{ending.state} in {seconds:.1f} s, {sent} uploaded{left}{where}")


def _leave_drainer(server: Server) -> None:
    """A process of its own goes on uploading for up to ten minutes after we have exited."""
    environment = {**os.environ, "TRIMTAB_URL": server.url, "TRIMTAB_TOKEN": server.token}
    subprocess.Popen(
        [sys.executable, "-m", "trimtab.cli", "sync", "--detached"],
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _options(arguments: argparse.Namespace) -> chosen.Options:
    environment = os.environ
    return chosen.Options(
        server=chosen.server(arguments.url, arguments.token, environment),
        job=shortened(arguments.job or environment.get("TRIMTAB_JOB", "")),
        owner=shortened(arguments.owner or environment.get("TRIMTAB_OWNER", "")),
        tags=chosen.tags(arguments.tag, environment),
        parameters=chosen.parameters(arguments.param),
        workload=pairs(environment.get("TRIMTAB_WORKLOAD", "")),
        node=chosen.node_texts(vars(arguments), environment),
        owns_machine=arguments.owns_machine,
        interval_seconds=arguments.interval,
    )


def _interval(text: str) -> float:
    seconds = float(text)
    if not _SHORTEST_INTERVAL_SECONDS <= seconds <= _LONGEST_INTERVAL_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text} is outside {_SHORTEST_INTERVAL_SECONDS}..{_LONGEST_INTERVAL_SECONDS} seconds"
        )
    return seconds
