"""Detects the platform that this machine runs on, and how it is billed.

SageMaker describes the instance in a file. Among the clouds, only the one that the machine's
firmware names is queried; without readable firmware (some containers), all three are. A query takes
at most a second, in a background thread. Only facts that determine the price are kept: no account,
project, address or user data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from trimtab.identity import shorten_name
from trimtab.platforms import clouds, sagemaker
from trimtab.platforms.instance import Instance
from trimtab.platforms.metadata_service import MetadataError, MetadataService
from trimtab.wire import NodeFacts

__all__ = ["Instance", "MetadataError", "detect", "fill_node_facts"]

_DMI = Path("/sys/class/dmi/id")
_FIRMWARE_NAMES = ("sys_vendor", "bios_vendor", "bios_version", "product_name", "chassis_asset_tag")


def fill_node_facts(facts: NodeFacts, instance: Instance, declared: Mapping[str, str]) -> None:
    """Add what wasn't declared. If another provider was declared, nothing is added."""
    if declared.get("provider", instance.provider) != instance.provider:
        return
    for name, value in asdict(instance).items():
        if value and not declared.get(name):
            setattr(facts, name, shorten_name(value) if isinstance(value, str) else value)


def detect(environment: Mapping[str, str]) -> Instance | None:
    """Return the instance that this machine is; None if no platform was detected.

    Raises:
        MetadataError: the firmware names a cloud whose metadata service doesn't answer; it names
            no known cloud; or detection is off.
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
    """Return the clouds that the firmware names. Raises MetadataError if it names no known
    cloud.
    """
    if environment.get("TRIMTAB_METADATA_URL") or not dmi.is_dir():
        return []
    firmware = " ".join(_text(dmi / name) for name in _FIRMWARE_NAMES).lower()
    named = [ask for word, ask in clouds.ALL.items() if word in firmware]
    if firmware.strip() and not named:
        raise MetadataError("the machine's firmware names no known cloud")
    return named


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
