"""`trimtab status`: shows what the spool holds, by service."""

from __future__ import annotations

import argparse

from trimtab.cli.arguments import Commands, say_count
from trimtab.spool import open_spool


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
    print(f"set apart  {say_count(held.dead, 'segment')} that the service refused")
    if held.last_error:
        print(f"last error {held.last_error}")
    return 0
