"""The options of a run, shared by the commands that start one."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trimtab import options as chosen
from trimtab.cli.arguments import add_server_arguments
from trimtab.directives import LONGEST_INTERVAL_SECONDS, SHORTEST_INTERVAL_SECONDS
from trimtab.identity import pairs, shorten_name

_PROVIDER = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._$+-]{0,63}")
"""The form of a machine's type: `g5.2xlarge`, `VM.Standard.E4.Flex$_2_8`, `1x_A100-80GB_SECURE`."""


def add_identity_arguments(parser: argparse.ArgumentParser, *, joins_runs: bool = True) -> None:
    """Add the options for service, job, run, owner and machine.

    Args:
        joins_runs: whether several commands may make one run.
    """
    add_server_arguments(parser)
    run = parser.add_argument_group("the run")
    run.add_argument("--job", help="name of the job; default git repository/script path")
    if joins_runs:
        run.add_argument("--run", help="run id, or any name that all nodes of the run share")
    run.add_argument(
        "--training",
        metavar="KEY",
        help="a name that all runs of one training share; also TRIMTAB_TRAINING",
    )
    run.add_argument("--owner", help="owner of the run; default TRIMTAB_OWNER")
    run.add_argument(
        "--tag",
        action="append",
        default=[],
        metavar="K=V",
        help="a tag of the run; also TRIMTAB_TAGS=k=v,k2=v2",
    )
    run.add_argument(
        "--param", action="append", default=[], metavar="K=V", help="a parameter of the run"
    )
    machine = parser.add_argument_group("the machine, as it is billed")
    machine.add_argument("--instance-type", type=_machine_name, help="e.g. g5.2xlarge")
    machine.add_argument("--region", help="e.g. us-east-1")
    machine.add_argument("--zone", help="e.g. us-east-1a")
    machine.add_argument(
        "--provider",
        type=_provider,
        help="aws, gcp, azure, oci, lambda, runpod, nebius, ... or on_premises",
    )
    machine.add_argument("--service", help="EC2, SageMaker training, ...")
    machine.add_argument(
        "--purchase-option", choices=("on_demand", "spot", "reserved", "capacity_block")
    )
    machine.add_argument(
        "--no-metadata",
        action="store_true",
        help="don't query the cloud's metadata service; also TRIMTAB_METADATA=off",
    )
    machine.add_argument(
        "--owns-machine", action="store_true", help="the machine was started for this run alone"
    )


def add_measuring_arguments(parser: argparse.ArgumentParser) -> None:
    measuring = parser.add_argument_group("measuring")
    measuring.add_argument(
        "--interval",
        type=_interval,
        default=0.5,
        metavar="SECONDS",
        help="time between two samples, 0.1 to 5; default 0.5",
    )
    measuring.add_argument(
        "--result-file",
        type=Path,
        help="write the result of the run as JSON; default TRIMTAB_RESULT_FILE",
    )


def add_training_arguments(parser: argparse.ArgumentParser) -> None:
    training = parser.add_argument_group("the training")
    training.add_argument(
        "--no-hook", action="store_true", help="don't load the hook: no steps, no loader settings"
    )
    training.add_argument(
        "--profile-steps",
        type=_profile_steps,
        metavar="FIRST:AFTER",
        help="profile these steps of rank 0, e.g. 50:55; default TRIMTAB_PROFILE_STEPS",
    )
    training.add_argument(
        "--allow-stop",
        action="store_true",
        default=os.environ.get("TRIMTAB_ALLOW_STOP") == "1",
        help="let a rule of the service end the command; also TRIMTAB_ALLOW_STOP=1",
    )
    training.add_argument(
        "--keep-stderr",
        action="store_true",
        default=os.environ.get("TRIMTAB_KEEP_STDERR") == "1",
        help="upload the last 50 lines of standard error, redacted; also TRIMTAB_KEEP_STDERR=1",
    )


def options(arguments: argparse.Namespace) -> chosen.Options:
    environment = os.environ
    return chosen.Options(
        server=chosen.server(arguments.url, arguments.token, environment),
        job=shorten_name(arguments.job or environment.get("TRIMTAB_JOB", "")),
        owner=shorten_name(arguments.owner or environment.get("TRIMTAB_OWNER", "")),
        tags=chosen.tags(arguments.tag, environment),
        parameters=chosen.parameters(arguments.param),
        training=shorten_name(
            arguments.training or environment.get("TRIMTAB_TRAINING", "").strip()
        ),
        workload=pairs(environment.get("TRIMTAB_WORKLOAD", "")),
        node=chosen.node_texts(vars(arguments), environment),
        owns_machine=arguments.owns_machine,
        ask_metadata=not arguments.no_metadata,
        interval_seconds=getattr(arguments, "interval", 0.5),
        allow_stop=getattr(arguments, "allow_stop", False),
        profile=getattr(arguments, "profile_steps", None) or _profile_steps_of(environment),
        probe=getattr(arguments, "probe", None),
    )


def environment(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the environment, with TRIMTAB_RUN as given on the command line."""
    variables = dict(os.environ)
    if arguments.run:
        variables["TRIMTAB_RUN"] = arguments.run
    return variables


def _profile_steps_of(environment: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the steps to profile. A wrong variable must not prevent the training from running."""
    with suppress(ValueError):
        return chosen.profile_steps(environment.get("TRIMTAB_PROFILE_STEPS", ""))
    return None


def _interval(text: str) -> float:
    seconds = float(text)
    if not SHORTEST_INTERVAL_SECONDS <= seconds <= LONGEST_INTERVAL_SECONDS:
        limits = f"{SHORTEST_INTERVAL_SECONDS}..{LONGEST_INTERVAL_SECONDS}"
        raise argparse.ArgumentTypeError(f"{text} is outside {limits} seconds")
    return seconds


def _provider(text: str) -> str:
    name = text.strip().lower()
    if not _PROVIDER.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a provider. Use e.g. lambda.")
    return name


def _machine_name(text: str) -> str:
    if not _MACHINE.fullmatch(text.strip()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no instance type. Use the provider's own name, e.g. g5.2xlarge."
        )
    return text.strip()


def _profile_steps(text: str) -> dict[str, Any]:
    try:
        return chosen.profile_steps(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}. Use e.g. 50:55.") from None
