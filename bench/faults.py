"""Breaks a real service by seeded schedules of faults and proves that nothing is lost or doubled.

    python -m bench.faults --schedules 200 --check
    python -m bench.faults --schedules 1 --seed 17 --database postgres    one schedule again
    python -m bench.faults --schedules 50 --only "power loss" --check

Each schedule uploads some runs by simulated agents while parts are killed, stopped and restarted,
disks fill up, networks break and proxies lie. Afterwards every acknowledged sample must be readable
exactly once, every cost must equal a fresh count, and every mail must have been sent once. With
--check it exits with 1 if that isn't so.

Needs Redis; PostgreSQL's programs for `--database postgres`. A full disk, read-only objects and
lost power need root, for a small disk of their own, and clocks that jump need a C compiler; without
them, the line of figures names what is left out.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import tempfile
from collections import Counter

from bench.figures import note

SERVICE_SCHEDULES = 40
"""The schedules on one service; every third service has its objects in S3."""


def main() -> int:
    asked = _asked()
    # What is imported below reads its settings, which must not touch the data of a real service.
    with tempfile.TemporaryDirectory(prefix="trimtab-faults-settings-") as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "webapp.settings", "TRIMTAB_DATA_DIR": folder}
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return _carried_out(asked)


def _asked() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--schedules", type=int, default=20)
    options.add_argument("--seed", type=int, default=0, help="of the first schedule")
    options.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    options.add_argument("--objects", choices=("folder", "s3", "both"), default="both")
    options.add_argument("--only", default="", help="one kind of fault")
    options.add_argument("--verbose", action="store_true", help="print each schedule as it begins")
    options.add_argument("--check", action="store_true")
    return options.parse_args()


def _carried_out(asked: argparse.Namespace) -> int:
    import django

    django.setup()
    logging.disable(logging.WARNING)
    from tests.faults.campaign import Campaign
    from tests.faults.house import house
    from tests.faults.kinds import missing

    every: list[Campaign] = []
    left_out: set[str] = set()
    end = asked.seed + asked.schedules
    for number, first in enumerate(range(asked.seed, end, SERVICE_SCHEDULES)):
        objects = asked.objects
        if objects == "both":
            objects = "s3" if number % 3 == 1 else "folder"
        with house(asked.database, objects) as made:
            left_out |= set(missing(made))
            campaign = Campaign(made, only=(asked.only,) if asked.only else ())
            every.append(campaign)
            say = _say if asked.verbose else lambda _: None
            campaign.run(range(first, min(first + SERVICE_SCHEDULES, end)), say)
            campaign.settle()
    return _report(every, left_out, asked)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _report(every: list, left_out: set[str], asked: argparse.Namespace) -> int:  # type: ignore[type-arg]
    from tests.faults.audit import Figures

    total, faults, told = Figures(), Counter[str](), Counter[str]()
    for campaign in every:
        total.add(campaign.figures)
        faults += campaign.faults
        told += campaign.told.answers
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(faults.items()))
    print(
        f"{asked.schedules} schedules from seed {asked.seed} on {asked.database}; "
        f"{faults.total()} faults ({kinds}; left out: {', '.join(sorted(left_out)) or 'none'}); "
        f"{total.samples} samples acknowledged, {total.lost} lost, {total.doubled} doubled; "
        f"{total.costs} costs compared, {total.wrong_costs} wrong; "
        f"{total.artefacts} files, {total.artefacts_lost} lost; "
        f"{total.mails} mails sent, {total.mails_lost} missing, {total.mails_doubled} doubled, "
        f"{total.mails_apart} repeated by a fault before our commit; "
        f"answers: {', '.join(f'{name} {count}' for name, count in sorted(told.items()))}"
    )
    for problem in total.problems:
        print(f"Broken: {problem}")
    measured = (
        f"{asked.schedules} schedules, {total.samples:,} samples: {total.lost} lost, "
        f"{total.doubled} doubled; {total.wrong_costs} of {total.costs} costs wrong; of "
        f"{total.mails} mails {total.mails_lost} missing, {total.mails_doubled} doubled"
    )
    counts = {"lost": total.lost, "doubled": total.doubled}
    counts |= {"costs": total.costs, "wrong_costs": total.wrong_costs}
    note(_promise(asked), measured, not total.problems, **counts)
    return int(asked.check and bool(total.problems))


def _promise(asked: argparse.Namespace) -> str:
    if asked.only:
        return "power_loss"
    return "nothing_lost" if asked.database == "sqlite" else "nothing_lost_postgres"


if __name__ == "__main__":
    sys.exit(main())
