"""`trimtab probe -- CMD`: measures some steps of a training on this machine, then stops it."""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Sequence

from trimtab import launch, ranks
from trimtab.cli import probe_limits, probe_report, run, run_options
from trimtab.cli.arguments import Commands, say
from trimtab.cli.ending import end_run
from trimtab.launch import Inheritance
from trimtab.probe import Watch
from trimtab.session import Session
from trimtab.supervise import Command, CommandEnding, failure_code
from trimtab.timeline import uuid7
from trimtab.wire import Probe

WRONG, TOO_FEW, FAILED = 2, 3, 4
GRACE_SECONDS = 10.0
"""The seconds between SIGTERM and SIGKILL."""
_MOST_STEPS = 100_000
_EXAMPLES = f"""
Run the same command with the same batch size on a machine of the type to measure. Warm-up steps are
left out. After the measured steps, or at the time limit, the command gets SIGTERM, and SIGKILL
{GRACE_SECONDS:.0f} s later. The machine itself keeps running.

examples:
  trimtab probe --steps 200 -- python train.py --batch-size 128
  trimtab probe --gpus 1 --max-usd 0.50 --usd-per-hour 1.006 -- torchrun --nproc-per-node 1 train.py

exit code: 0 measured; 2 wrong options, or nothing was started; 3 too few steps; 4 the command
failed by itself; 127 not found, 126 not executable.
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "probe",
        help="measure some steps of a training on this machine, then stop it",
        usage="trimtab probe [options] -- CMD",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_probe_arguments(parser)
    run_options.add_identity_arguments(parser, joins_runs=False)
    run_options.add_measuring_arguments(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD")
    parser.set_defaults(
        handler=probe, run=None, no_hook=False, allow_stop=False, profile_steps=None
    )


def _add_probe_arguments(parser: argparse.ArgumentParser) -> None:
    own = parser.add_argument_group("the probe")
    own.add_argument(
        "--steps", type=_count(10), default=200, metavar="N", help="steps to measure; default 200"
    )
    own.add_argument(
        "--warmup",
        type=_count(0),
        metavar="K",
        help="steps to leave out first; default: up to ten steps that take as long as the next ten,"
        " within 10 %%, and at most N",
    )
    own.add_argument(
        "--gpus", type=_count(1), metavar="N", help="limit the command to N GPUs of this machine"
    )
    own.add_argument(
        "--max-seconds",
        type=_positive,
        default=900.0,
        metavar="S",
        help="stop the command after this time; default 900",
    )
    own.add_argument(
        "--max-usd",
        type=_positive,
        metavar="X",
        help="stop the command before it costs more; needs a price",
    )
    own.add_argument(
        "--usd-per-hour",
        type=_positive,
        metavar="P",
        help="price of this machine; default: as the service knows it",
    )


def probe(arguments: argparse.Namespace) -> int:
    """Measure some steps. Returns the exit code; see `trimtab probe --help`."""
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if reason := _why_not(words):
        say(reason)
        return WRONG
    arguments.run = str(uuid7())
    arguments.probe = Probe(arguments.steps, arguments.warmup, arguments.gpus)
    inherited = launch.prepare_process()
    try:
        if arguments.gpus:
            visible = {"CUDA_VISIBLE_DEVICES": probe_limits.visible_gpus(arguments.gpus)}
            os.environ.update(visible)
            inherited.environment.update(visible)
        limit = probe_limits.limit(arguments, GRACE_SECONDS)
    except ValueError as error:
        say(str(error))
        return WRONG
    say(limit.words)
    try:
        return _probed(words, arguments, inherited, limit.seconds)
    except OSError as error:
        say(f"{words[0]}: {error.strerror}")
        return failure_code(error)


def _why_not(words: Sequence[str]) -> str:
    """Return why nothing can be probed; empty if it can."""
    if not words or not words[0]:
        return "there is no command to probe. Use trimtab probe [options] -- CMD."
    if os.environ.get("TRIMTAB_DISABLE") == "1":
        return "TRIMTAB_DISABLE=1 turns measuring off. Unset it for a probe."
    if os.environ.get("TRIMTAB_RUN_DIR"):
        return "a probe inside `trimtab run` measures nothing. Start `trimtab probe` by itself."
    if (size := ranks.process_rank(os.environ).world_size) > 1:
        return (
            f"a launcher started this as one of {size} processes. Put `trimtab probe` in front of"
            " the launcher: trimtab probe -- torchrun train.py"
        )
    return ""


def _probed(
    words: Sequence[str], arguments: argparse.Namespace, inherited: Inheritance, seconds: float
) -> int:
    """Run and measure the command. Raises OSError if it can't be started."""
    began = time.monotonic()
    watch = Watch(arguments.probe)
    session = run.measuring_session(words, arguments, watch)
    if session is None:
        return WRONG
    command = run.start_command(words, session, arguments, inherited)
    ending, has_timed_out = _awaited(command, watch, seconds)
    server = run_options.options(arguments).server
    lasted = time.monotonic() - began
    end_run(session, ending, lasted, server, arguments.result_file)
    return _reported(session, watch, ending, has_timed_out)


def _awaited(command: Command, watch: Watch, seconds: float) -> tuple[CommandEnding, bool]:
    """Return how the command ended, and whether the time limit ended it."""
    timed_out = threading.Event()

    def expire() -> None:
        timed_out.set()
        command.end("", GRACE_SECONDS)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    watch.begin(lambda: command.end("", GRACE_SECONDS))
    ending = command.wait()
    timer.cancel()
    watch.note_end()
    return ending, timed_out.is_set()


def _reported(session: Session, watch: Watch, ending: CommandEnding, has_timed_out: bool) -> int:
    result = watch.result()
    if result:
        for line in probe_report.lines(result, session.page):
            say(line)
        return 0
    say(probe_report.too_few(watch, ending, has_timed_out))
    return FAILED if ending.state == "failed" else TOO_FEW


def _count(low: int):  # type: ignore[no-untyped-def]
    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= _MOST_STEPS:
            raise argparse.ArgumentTypeError(f"{text} is no whole number {low}..{_MOST_STEPS}")
        return int(text)

    return read


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e7:
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return number
