"""The limits of a probe: time, money and GPUs."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from trimtab import options, platforms
from trimtab.cli import reports, run_options
from trimtab.cli.arguments import say_count
from trimtab.platforms import MetadataError
from trimtab.transport import ServiceConnection
from trimtab.wire import NodeFacts

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_DRIVER_LIST = Path("/proc/driver/nvidia/gpus")
_ASK_SECONDS = 3.0
_LEAST_SECONDS = 10.0


@dataclass(frozen=True)
class Limit:
    seconds: float
    """The seconds until SIGTERM."""
    words: str
    """The most that the probe can take and cost."""


def limit(arguments: argparse.Namespace, grace_seconds: float) -> Limit:
    """Return the time limit, and what it costs. Raises ValueError if --max-usd can't be kept."""
    price = arguments.usd_per_hour or _price_of_this_machine(arguments)
    seconds = arguments.max_seconds
    if arguments.max_usd:
        if price is None:
            raise ValueError(
                "--max-usd needs the price of this machine, which isn't known. Add --usd-per-hour."
            )
        affordable = arguments.max_usd / price * 3600 - grace_seconds
        if affordable < _LEAST_SECONDS:
            raise ValueError(
                f"${arguments.max_usd:g} isn't enough for {_LEAST_SECONDS:.0f} s at ${price:g} an"
                " hour. Raise --max-usd."
            )
        seconds = min(seconds, affordable)
    most = seconds + grace_seconds
    if price is None:
        return Limit(seconds, f"the probe takes at most {most:.0f} s; no price is known")
    usd = price * most / 3600
    return Limit(
        seconds,
        f"the probe takes at most {most:.0f} s and costs at most {reports.usd(str(usd))}, at"
        f" ${price:g} an hour",
    )


def visible_gpus(count: int) -> str:
    """Return CUDA_VISIBLE_DEVICES for the first `count` GPUs. Raises ValueError if there are
    fewer.
    """
    given = os.environ.get(_VISIBLE)
    known: list[str] | None = None
    if given is not None:
        known = [word for word in given.split(",") if word.strip()]
    elif _DRIVER_LIST.is_dir():
        known = [str(number) for number in range(len(list(_DRIVER_LIST.iterdir())))]
    if known is not None and len(known) < count:
        held = say_count(len(known), "GPU")
        raise ValueError(f"--gpus {count}: this machine has {held} for the command.")
    return ",".join((known or [str(number) for number in range(count)])[:count])


def _price_of_this_machine(arguments: argparse.Namespace) -> float | None:
    """Return the USD per hour as the service knows it, or None if unknown."""
    server = options.server(arguments.url, arguments.token, os.environ)
    facts = _machine(arguments)
    if not server.url or not server.token or not facts.instance_type:
        return None
    names = ("provider", "service", "region", "zone", "purchase_option")
    query = {name: getattr(facts, name) for name in names if getattr(facts, name)}
    place = f"price?{urlencode({'instance_type': facts.instance_type, **query})}"
    with suppress(ValueError, TypeError):
        answer = ServiceConnection(server, timeout_seconds=_ASK_SECONDS).get(place)
        known = answer.document.get("usd_per_hour") if answer.status == 200 else None
        return float(known) if known is not None and float(known) > 0 else None
    return None


def _machine(arguments: argparse.Namespace) -> NodeFacts:
    said = run_options.options(arguments)
    facts = NodeFacts(machine_id="")
    said.apply_to(facts)
    with suppress(MetadataError, OSError):
        if said.ask_metadata and (instance := platforms.detect(os.environ)):
            platforms.fill_node_facts(facts, instance, said.node)
    return facts
