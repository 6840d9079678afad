"""The checks of `trimtab doctor`: what can be measured here, and what is lost without the rest."""

from __future__ import annotations

from trimtab.checks import container, gpu, hook, host, price, upload
from trimtab.checks.check import Check, CheckState
from trimtab.options import Options

__all__ = ["Check", "CheckState", "all_checks"]


def all_checks(options: Options) -> list[Check]:
    return [
        upload.service(options),
        upload.spool(),
        price.price(options),
        host.cpu_and_memory(),
        container.container(),
        host.pressure(),
        host.disks(),
        host.remote_file_systems(),
        host.network(),
        host.processes(),
        gpu.gpus(),
        hook.hook(),
    ]
