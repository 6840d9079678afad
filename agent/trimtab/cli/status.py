"""`trimtab status`: shows what the spool holds, by service."""

from __future__ import annotations

import argparse
import time

from trimtab.cli.arguments import Commands, say_count
from trimtab.spool import Dead, open_spool
from trimtab.spool.postponed import DECLARATION


def add_to(commands: Commands) -> None:
    parser = commands.add_parser("status", help="show what the spool holds")
    parser.set_defaults(handler=status)


def status(arguments: argparse.Namespace) -> int:
    spool = open_spool()
    held = spool.contents()
    print(f"spool      {spool.path or 'memory only'}")
    if spool.problem:
        print(f"problem    {spool.problem}")
    print(f"waiting    {say_count(held.waiting, 'segment')}, {held.waiting_bytes} bytes")
    for destination, count in spool.destinations():
        print(f"           {count} for {destination.split(' ')[0] or 'no service yet'}")
    print(f"uploaded   {say_count(held.taken, 'segment')}, kept for up to 15 more minutes")
    print(f"artefacts  {say_count(held.artefacts, 'file')} waiting")
    _show_refused(spool.dead.contents())
    if held.last_error:
        print(f"last error {held.last_error}")
    return 0


def _show_refused(dead: Dead) -> None:
    print(f"refused    {say_count(dead.segments, 'segment')}, {dead.segment_bytes} bytes", end="")
    print(f", the oldest since {_day(dead.since)}" if dead.since else "")
    for reason, count in dead.reasons:
        print(f"           {count}: {reason}")
    for item, reason in dead.others:
        what = "1 declaration" if item == DECLARATION else f"1 file, {item[:12]}"
        print(f"           {what}: {reason}")
    if dead.segments or dead.others:
        print("           `trimtab sync --dead` sends them again; after 30 days they are deleted")
    if dead.expired:
        print(f"expired    {say_count(dead.expired, 'refused upload')} deleted unsent")


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
