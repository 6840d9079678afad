"""Decides whether a node stands still: its GPUs idle or spin, and its processes rest or poll."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rules.activity import own_cores
from rules.evidence import series_after
from rules.frame import UNUSED_PCT, NodeFrame, RunFrame
from rules.idle import BACKGROUND_SHARE, REST_CORES, has_gpus, is_mostly_set, ranks
from rules.processes import (
    MACHINE_TRAFFIC,
    NETWORK,
    OWN_TRAFFIC,
    SUSPENDED,
    are_cores_own,
    bytes_per_second,
    has_machine_alone,
    own_memory_bytes,
)
from rules.rule import Window
from rules.starvation import wanted_cores

SPIN_BUSY_PCT = 95.0
SPIN_POWER_SHARE, SPIN_POWER_SHARE_WITHOUT_STEPS = 0.30, 0.15
"""The share of the way from idle power to that at work. A collective operation that waits draws 15
to 25 %; decoding, the lightest real work that keeps a GPU busy, 35 % and more (ours, of A100 and
H100)."""
SPIN_MEMORY_PCT, SPIN_SM_PCT = 10.0, 50.0
"""A GPU that spins reads next to no memory and has its kernels on a few SMs."""
LEAST_POWER_SPAN_WATTS = 50.0
POLLING_CORES, OTHER_CORES = 1.0, 0.5
"""Cores of a process that waits in a loop, per rank; and of the threads beside it that watch, log
and keep connections alive, per node (ours)."""
FEWER_CORES_SHARE = 0.5
"""The share of the cores at work that polling uses at most without GPUs; more is work."""
OWN_BYTES_PER_SECOND, MACHINE_BYTES_PER_SECOND = 1e5, 2e7
"""More is work. A log, a heartbeat or a progress bar is below the first; what a machine's system
and its neighbours do, mostly below the second (ours)."""
TRAFFIC_SECONDS = 30.0
"""Reads and writes come in bursts: their mean over this long counts."""
FLAT_CORES, FLAT_SECONDS, LEVEL_SECONDS = 0.2, 10.0, 120.0
"""Polling doesn't vary: the mean over 10 s stays this near to its median over two minutes, in cores
per rank (ours)."""
STEADY_BYTES, STEADY_SHARE, STEADY_SECONDS = 32 * 2**20, 0.003, 30.0
"""Memory that is allocated and freed for work moves by more, from one half minute to another."""
KNOWN_SHARE = 0.8
"""The share of a window that must be known for evidence to count as known in it."""


def is_known(node: NodeFrame, frame: RunFrame) -> bool:
    """Return whether it can be seen that the node's GPUs or, without any, its cores stand still."""
    gpus = node.allocated_gpus()
    if gpus:
        return all(node.gpu_busy_pct(number) is not None for number in gpus)
    return own_cores(node, frame.resolution_seconds) is not None


def stillness(node: NodeFrame, frame: RunFrame, at_work: pd.Series[bool]) -> pd.DataFrame:
    """Return flags at the ticks at which all of the evidence about a known node's GPUs and cores is
    there: `still`: nothing but idling, spinning and polling; `spins`: a GPU does; `polls`: a core.
    `may_be_still` and `may_spin` are these where a busy GPU may spin: nothing shows its work.

    Args:
        at_work: at the node's ticks, whether the run made progress then.
    """
    step = frame.resolution_seconds
    gpus, busy = _gpus(node, at_work, step), wanted_cores(node, step)
    if gpus is None:
        none = {"still": True, "spins": False, "may_be_still": True, "may_spin": False}
        gpus = pd.DataFrame(none, index=node.judged.index)
    if busy is None:
        return gpus.assign(polls=False)
    limit, rest = _most_cores(node, busy, at_work, has_gpus(frame)), _rest_cores(node)
    cores = pd.DataFrame(
        {"rests": is_mostly_set(busy <= limit), "polls": is_mostly_set(busy > rest)}
    )
    both = gpus.join(cores, how="inner").astype(bool)
    rests = both.pop("rests")
    both["still"] &= rests
    both["may_be_still"] &= rests
    return both


def find_activity(node: NodeFrame, frame: RunFrame, window: Window) -> list[pd.Series[bool]]:
    """Return what shows that the node does something in a window after all: flags at known
    ticks.
    """
    found = [_traffic_moves(node, frame, window), _network_moves(node, frame, window)]
    found += [_is_suspended(node, window), *_polling_moves(node, frame, window)]
    return [flags for flags in found if flags is not None]


def unknown(node: NodeFrame, frame: RunFrame, window: Window) -> list[str]:
    """Return the evidence about its own processes that the node lacks in a window, in words."""
    step = frame.resolution_seconds
    cores = own_cores(node, step) if are_cores_own(node) else None
    evidence = {
        "CPU time": cores,
        "reads and writes": bytes_per_second(node, OWN_TRAFFIC, step),
        "suspended processes": node.series(SUSPENDED),
    }
    if cores is not None and _polls_in(node, cores, window):
        evidence["memory"] = own_memory_bytes(node)
    return [words for words, series in evidence.items() if not _is_known(series, window, step)]


def _gpus(node: NodeFrame, at_work: pd.Series[bool], step_seconds: float) -> pd.DataFrame | None:
    """Return whether each allocated GPU idles or spins, and whether one spins; None if it has
    none.
    """
    tables = [_gpu(node, number, at_work, step_seconds) for number in node.allocated_gpus()]
    known = [table for table in tables if table is not None]
    if not known:
        return None

    def flags(name: str) -> pd.DataFrame:
        return pd.concat([table[name] for table in known], axis=1).dropna().astype(bool)

    in_all = {name: flags(name).all(axis=1) for name in ("still", "may_be_still")}
    in_any = {name: flags(name).any(axis=1) for name in ("spins", "may_spin")}
    return pd.DataFrame(in_all | in_any)


def _gpu(
    node: NodeFrame, number: int, at_work: pd.Series[bool], step_seconds: float
) -> pd.DataFrame | None:
    busy = node.gpu_busy_pct(number)
    if busy is None:
        return None
    idles, spins = is_mostly_set(busy <= UNUSED_PCT), is_mostly_set(busy >= SPIN_BUSY_PCT)
    may_spin = spins & _shows_nothing(node, number, busy.index)
    spins &= _does_little(node, number, at_work, step_seconds).reindex(busy.index, fill_value=False)
    may_spin |= spins
    still = {"still": idles | spins, "may_be_still": idles | may_spin}
    return pd.DataFrame(still | {"spins": spins, "may_spin": may_spin})


def _shows_nothing(node: NodeFrame, number: int, ticks: pd.Index[float]) -> pd.Series[bool]:
    """Flag the ticks at which neither power nor SM activity nor memory traffic tells a GPU's work
    from a collective operation that waits: both keep it busy."""
    names = "power_watts", "sm_active_pct", "memory_controller_busy_pct"
    power, sm, memory = (node.series(f"gpu{number}.{name}") for name in names)
    is_seen = pd.Series(False, index=ticks)
    for series in (power, sm, None if memory is None else memory[memory > SPIN_MEMORY_PCT]):
        if series is not None:
            is_seen |= series.notna().reindex(ticks, fill_value=False)
    return ~is_seen


def _does_little(
    node: NodeFrame, number: int, at_work: pd.Series[bool], step_seconds: float
) -> pd.Series[bool]:
    """Return whether the GPU does little, by power, else by SM activity, which tells nothing
    without steps; never while it reads much memory. Empty if unknown.
    """
    sm, memory = (
        node.series(f"gpu{number}.{n}_pct") for n in ("sm_active", "memory_controller_busy")
    )
    little = _little_power(node, number, at_work, step_seconds)
    if little is None and sm is not None and at_work.any():
        little = is_mostly_set(sm <= SPIN_SM_PCT / 2)
    if little is None:
        return pd.Series(dtype=bool)
    for series, most in ((sm, SPIN_SM_PCT), (memory, SPIN_MEMORY_PCT)):
        if series is not None:
            little &= is_mostly_set(series <= most).reindex(little.index, fill_value=True)
    return little


def _little_power(
    node: NodeFrame, number: int, at_work: pd.Series[bool], step_seconds: float
) -> pd.Series[bool] | None:
    power = node.series(f"gpu{number}.power_watts")
    if power is None:
        return None
    working = power[at_work.reindex(power.index, fill_value=False)]
    share = SPIN_POWER_SHARE if len(working) else SPIN_POWER_SHARE_WITHOUT_STEPS
    low = float(_rolled(power, FLAT_SECONDS, step_seconds, "median").min())
    high = float(np.median(working)) if len(working) else float(np.percentile(power, 99))
    if high - low < LEAST_POWER_SPAN_WATTS:
        return None
    return is_mostly_set(power <= low + share * (high - low))


def _rest_cores(node: NodeFrame) -> float:
    own = 0.0 if are_cores_own(node) else BACKGROUND_SHARE * node.hardware.vcpus
    return max(REST_CORES * ranks(node), own)


def _most_cores(
    node: NodeFrame, busy: pd.Series[float], at_work: pd.Series[bool], has_gpus: bool
) -> float:
    """Return the most busy cores of a node that only waits."""
    rest = _rest_cores(node)
    polling = POLLING_CORES * ranks(node) + OTHER_CORES + (0.0 if are_cores_own(node) else rest)
    if has_gpus:
        return polling
    working = busy[at_work.reindex(busy.index, fill_value=False)]
    usual = float(np.median(working)) if len(working) else 0.0
    return max(min(polling, FEWER_CORES_SHARE * usual), rest)


def _part(
    series: pd.Series[float] | None, window: Window, step_seconds: float
) -> pd.Series[float] | None:
    """Return the ticks that lie entirely within the window; None if there are none."""
    rest = series_after(series, window.start_seconds + step_seconds - 1e-6)
    rest = None if rest is None else rest[rest.index <= window.end_seconds - step_seconds + 1e-6]
    return rest if rest is not None and len(rest) else None


def _is_known(series: pd.Series[float] | None, window: Window, step_seconds: float) -> bool:
    part = _part(series, window, step_seconds)
    length = window.end_seconds - window.start_seconds
    return part is not None and len(part) * step_seconds >= KNOWN_SHARE * length - 2 * step_seconds


def _traffic_moves(node: NodeFrame, frame: RunFrame, window: Window) -> pd.Series[bool] | None:
    """Return when its own processes read and write, else those of the machine."""
    step = frame.resolution_seconds
    own = _part(bytes_per_second(node, OWN_TRAFFIC, step), window, step)
    if own is not None:
        return _rolled(own, TRAFFIC_SECONDS, step, "mean") > OWN_BYTES_PER_SECOND
    whole = _part(bytes_per_second(node, MACHINE_TRAFFIC, step), window, step)
    if whole is None:
        return None
    return _rolled(whole, TRAFFIC_SECONDS, step, "mean") > MACHINE_BYTES_PER_SECOND


def _network_moves(node: NodeFrame, frame: RunFrame, window: Window) -> pd.Series[bool] | None:
    """Return when the machine's network moves, unless it may be somebody else's on the machine."""
    step = frame.resolution_seconds
    knows_own = bytes_per_second(node, OWN_TRAFFIC, step) is not None
    if knows_own and not has_machine_alone(node, step):
        return None
    traffic = _part(bytes_per_second(node, NETWORK, step), window, step)
    if traffic is None:
        return None
    return _rolled(traffic, TRAFFIC_SECONDS, step, "mean") > MACHINE_BYTES_PER_SECOND


def _is_suspended(node: NodeFrame, window: Window) -> pd.Series[bool] | None:
    """Return when more of its processes are suspended than at any other time of the run."""
    count = node.series(SUSPENDED)
    within = _part(count, window, 0.0)
    return None if count is None or within is None else within > float(count.min())


def _polls_in(node: NodeFrame, cores: pd.Series[float], window: Window) -> bool:
    within = _part(cores, window, 0.0)
    return within is not None and bool((within > _rest_cores(node)).mean() > 1 - KNOWN_SHARE)


def _polling_moves(node: NodeFrame, frame: RunFrame, window: Window) -> list[pd.Series[bool]]:
    """Return signs that polling cores work: a core that polls stays at its level and allocates
    nothing.
    """
    step = frame.resolution_seconds
    cores = _part(wanted_cores(node, step), window, step)
    if cores is None:
        return []
    level = _rolled(cores, FLAT_SECONDS, step, "mean")
    far = (level - _rolled(level, LEVEL_SECONDS, step, "median")).abs() > FLAT_CORES * ranks(node)
    polls = is_mostly_set(cores > _rest_cores(node))
    found = [is_mostly_set(far) & polls]
    memory = _part(own_memory_bytes(node), window, step)
    if memory is not None:
        found.append(_memory_moves(memory, step) & polls.reindex(memory.index, fill_value=False))
    return found


def _memory_moves(memory: pd.Series[float], step_seconds: float) -> pd.Series[bool]:
    smooth = _rolled(memory, STEADY_SECONDS, step_seconds, "median")
    high, low = (_rolled(smooth, LEVEL_SECONDS, step_seconds, how) for how in ("max", "min"))
    return high - low > (STEADY_SHARE * memory).clip(lower=STEADY_BYTES)


def _rolled(
    series: pd.Series[float], seconds: float, step_seconds: float, how: str
) -> pd.Series[float]:
    """Roll over centred windows of so many seconds; at the ends over the known ticks within
    them.
    """
    count = max(round(seconds / step_seconds), 1)
    rolling = series.rolling(count, center=True, min_periods=1)
    rolled: pd.Series[float] = getattr(rolling, how)()
    return rolled
