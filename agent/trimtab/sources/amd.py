"""AMD's GPUs, by the files of their kernel driver. Not yet seen on a real card.

The driver (`amdgpu`) needs no library for this. A card is `/sys/class/drm/card<N>`; its number here
is its place in the order of PCI addresses, as ROCm counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from trimtab.sources.gpu.inventory import Card, allocated_cards
from trimtab.sources.gpu.outages import Record
from trimtab.sources.gpu.schedule import Query, Schedule
from trimtab.sources.procfile import MEMORY_STEP_BYTES, Reading, round_bytes
from trimtab.wire import Gpu

_DEVICES = Path("/sys/class/drm")
_AMD = "0x1002"
_MODELS = {
    "0x738c": "AMD Instinct MI100",
    "0x7408": "AMD Instinct MI250X",
    "0x740c": "AMD Instinct MI250X",
    "0x740f": "AMD Instinct MI210",
    "0x74a1": "AMD Instinct MI300X",
    "0x74b5": "AMD Instinct MI300X",
    "0x74a5": "AMD Instinct MI325X",
}
"""The names by PCI device id, where the driver doesn't name the product."""
_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_OFTEN_SECONDS, _SLOW_SECONDS = 1.0, 5.0


class AmdGpus:
    """`gpu<N>.*` of AMD's GPUs. Raises OSError if there is none."""

    def __init__(
        self,
        record: Record,
        on_list: Callable[[list[Gpu]], None],
        environment: Mapping[str, str],
        devices: Path = _DEVICES,
    ) -> None:
        cards = list(_cards(devices))
        if not cards:
            raise FileNotFoundError(f"{devices}/card*")
        self._queries = [
            (number, _schedule(number, card, record)) for number, card in enumerate(cards)
        ]
        described = [_described(card) for card in cards]
        visible = next((environment[name] for name in _VISIBLE if name in environment), None)
        on_list(
            [
                Gpu(card.model, card.memory_bytes, card.uuid, is_ours)
                for card, is_ours in zip(described, allocated_cards(visible, described))
            ]
        )

    def read(self) -> Reading:
        now = time.monotonic()
        reading: Reading = {}
        for number, schedule in self._queries:
            for query in schedule.due_queries(now):
                query.answer(now)
            for query in schedule.queries:
                for name, value in query.known.items():
                    reading[f"gpu{number}.{name}"] = value
        return reading


def _cards(devices: Path) -> Iterator[Path]:
    found = [path / "device" for path in devices.glob("card[0-9]*") if path.name[4:].isdecimal()]
    yield from sorted((card for card in found if _is_amds(card)), key=lambda card: card.resolve())


def _is_amds(card: Path) -> bool:
    return _text(card / "vendor") == _AMD and (card / "mem_info_vram_total").exists()


def _described(card: Path) -> Card:
    device = _text(card / "device")
    model = _text(card / "product_name") or _MODELS.get(device, f"AMD GPU {device}")
    uuid = _text(card / "unique_id")
    memory_bytes = _number(card / "mem_info_vram_total") or 0
    return Card(model[:120], memory_bytes, f"GPU-{uuid}" if uuid else "")


def _schedule(number: int, card: Path, record: Record) -> Schedule:
    sensors = next(card.glob("hwmon/hwmon*"), card)
    controller, clock = "memory_controller_busy_pct", "sm_clock_mhz"
    queries = [
        Query("busy_pct", partial(_value, "busy_pct", card / "gpu_busy_percent")),
        Query("memory_used_bytes", partial(_memory, card / "mem_info_vram_used")),
        Query("power_watts", partial(_power, sensors)),
        Query(controller, partial(_value, controller, card / "mem_busy_percent"), _OFTEN_SECONDS),
        Query(clock, partial(_value, clock, sensors / "freq1_input", 10**6), _SLOW_SECONDS),
        Query("temperature_celsius", partial(_temperature, sensors), _SLOW_SECONDS),
    ]
    return Schedule(queries, lambda rarer: record("gpu_queries", {"gpu": number} | rarer))


def _value(name: str, path: Path, unit: int = 1) -> Reading:
    value = _number(path)
    return {} if value is None else {name: round(value / unit)}


def _memory(path: Path) -> Reading:
    used = _number(path)
    return {} if used is None else {"memory_used_bytes": round_bytes(used, MEMORY_STEP_BYTES)}


def _power(sensors: Path) -> Reading:
    """Return the power from microwatts: the mean where the card measures one, or else at this
    moment.
    """
    for name in ("power1_average", "power1_input"):
        if reading := _value("power_watts", sensors / name, 10**6):
            return reading
    return {}


def _temperature(sensors: Path) -> Reading:
    """Return the temperature from thousandths of a degree: at the hottest place of the chip, or
    else at its edge.
    """
    for name in ("temp2_input", "temp1_input"):
        if reading := _value("temperature_celsius", sensors / name, 1000):
            return reading
    return {}


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """Return a number, or None if the card doesn't say. A driver that is busy answers with an
    error.
    """
    text = _text(path)
    return int(text) if text.isdecimal() else None
