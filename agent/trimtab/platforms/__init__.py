"""Where this machine is and how it is billed, as far as nobody has said so.

SageMaker says it in a file. Of the clouds only the one whose name the machine's firmware bears is
asked; where there is no firmware to look at (some containers), all three are. A question takes at
most a second, in a thread that nobody waits for. Only what is billed is kept: no account, no
project, no address, no user data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from trimtab.identity import shortened
from trimtab.platforms import clouds, sagemaker
from trimtab.platforms.instance import Instance
from trimtab.platforms.metadata_service import MetadataError, MetadataService
from trimtab.wire import NodeFacts

__all__ = ["Instance", "MetadataError", "detect", "fill_in"]

_DMI = Path("/sys/class/dmi/id")
_FIRMWARE_NAMES = ("sys_vendor", "bios_vendor", "bios_version", "product_name", "chassis_asset_tag")


def fill_in(facts: NodeFacts, instance: Instance, declared: Mapping[str, str]) -> None:
    """Fill in what wasn't declared; a machine declared to be elsewhere stays as it was declared."""
    if declared.get("provider", instance.provider) != instance.provider:
        return
    for name, value in asdict(instance).items():
        if value and not declared.get(name):
            setattr(facts, name, shortened(value) if isinstance(value, str) else value)


def detect(environment: Mapping[str, str]) -> Instance | None:
    """None where nothing says so.

    Raises:
        MetadataError: the firmware names a cloud, but its metadata service doesn't answer; the
            firmware names none; or asking is switched off.
    """
    instance = sagemaker.instance(environment)
    if instance is not None:
        return instance
    named = _named(environment)
    service = MetadataService(environment)
    for ask in named or clouds.ALL.values():
        try:
            return ask(service, environment)
        except MetadataError:
            if named:
                raise
    return None


def _named(environment: Mapping[str, str], dmi: Path = _DMI) -> list[clouds.Ask]:
    """The clouds that the firmware names. Raises MetadataError where it names none of them."""
    if environment.get("TRIMTAB_METADATA_URL") or not dmi.is_dir():
        return []
    firmware = " ".join(_text(dmi / name) for name in _FIRMWARE_NAMES).lower()
    named = [ask for word, ask in clouds.ALL.items() if word in firmware]
    if firmware.strip() and not named:
        raise MetadataError("no cloud: the firmware names none that we know")
    return named


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
