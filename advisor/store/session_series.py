"""Builds one series of a node from the ticks of its sessions. A counter becomes a rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from advisor.store.rows import Rows, join_rows, nearest, no_gap, no_histograms, no_rows
from advisor.store.ticks import SessionKey, Ticks
from rules.evidence import is_counter


@dataclass(frozen=True)
class _SessionSeries:
    """One series as one session recorded it. `value` keeps whole numbers whole."""

    session: SessionKey
    rows: Rows
    value: np.ndarray


def series_rows(ticks: Iterable[Ticks], series: str) -> Rows:
    """Return one series from many ticks. If sessions overlap, the one that began first counts.

    Otherwise two agents on one machine, or clocks that disagree at a restart, would count the same
    moment twice and mix up their counters.
    """
    counter = is_counter(series)
    rows_so_far = no_rows()
    for recorded in _by_session(ticks, series):
        new = recorded.rows
        if len(rows_so_far):
            uncovered = nearest(rows_so_far, new.at_ms) < 0
            recorded = _SessionSeries(
                recorded.session, new.pick(uncovered), recorded.value[uncovered]
            )
        rows = _with_rates(recorded) if counter else recorded.rows
        rows_so_far = join_rows([rows_so_far, rows])
    return rows_so_far


def series_names(ticks: Iterable[Ticks]) -> set[str]:
    return {name.split(":")[0] for each in ticks for name in each.columns}


def _by_session(ticks: Iterable[Ticks], series: str) -> list[_SessionSeries]:
    """Return the sessions in the order of their starts; each in time order and without
    duplicates.
    """
    by_session: dict[SessionKey, list[_SessionSeries]] = {}
    for each in ticks:
        for recorded in _parts(each, series):
            by_session.setdefault(each.session, []).append(recorded)
    return [_merged(by_session[session]) for session in sorted(by_session)]


def _merged(parts: list[_SessionSeries]) -> _SessionSeries:
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([part.rows.at_ms for part in parts])
    _, chosen = np.unique(times, return_index=True)
    value = np.concatenate([part.value for part in parts])[chosen]
    columns = zip(*(vars(part.rows).values() for part in parts), strict=True)
    return _SessionSeries(
        parts[0].session, Rows(*(np.concatenate(c)[chosen] for c in columns)), value
    )


def _parts(ticks: Ticks, series: str) -> Iterable[_SessionSeries]:
    if series in ticks.columns and ticks.columns[series].known.any():
        yield _single(ticks, series)
    if f"{series}:mean" in ticks.columns and ticks.columns[f"{series}:mean"].known.any():
        yield _thinned(ticks, series)


def _single(ticks: Ticks, series: str) -> _SessionSeries:
    values, known = ticks.columns[series]
    value, at_ms = values, ticks.times_ms
    if not known.all():
        value, at_ms = value[known], at_ms[known]
    shown = value.astype("float64", copy=False)
    zeros, ones, cadence, unknown, histograms = _constants(len(value), ticks.cadence_ms)
    return _SessionSeries(
        ticks.session,
        Rows(
            at_ms=at_ms,
            width_ms=zeros,
            cadence_ms=cadence,
            low=shown,
            mean=shown,
            high=shown,
            weight=ones,
            count=ones,
            last=unknown,
            histogram=histograms,
        ),
        value,
    )


@lru_cache(maxsize=4)
def _constants(size: int, cadence_ms: int) -> tuple[np.ndarray, ...]:
    """Return what single samples have in common, shared by a machine's hundred series."""
    zeros, ones = np.zeros(size, dtype="int64"), np.ones(size, dtype="int64")
    every = zeros, ones, cadence_ms * ones, np.full(size, np.nan), no_histograms(size)
    for each in every:
        each.flags.writeable = False
    return every


def _thinned(ticks: Ticks, series: str) -> _SessionSeries:
    """Return the agent's own summaries: one tick, at the last of the ticks that it summarises.

    A gauge's summary covers the time before it. A counter's maximum is its value at that tick.
    """
    means, known = ticks.columns[f"{series}:mean"]
    low, high, counted = (
        _companion(ticks, f"{series}:{s}", known, means) for s in ("min", "max", "count")
    )
    count = np.maximum(counted, 1).astype("int64")
    width = np.full(len(count), 0 if is_counter(series) else ticks.cadence_ms)
    cadence = np.full(len(count), ticks.cadence_ms)
    return _SessionSeries(
        ticks.session,
        Rows(
            at_ms=ticks.times_ms[known] - width // 2,
            width_ms=width,
            cadence_ms=cadence if is_counter(series) else cadence // count,
            low=low.astype("float64"),
            mean=means[known].astype("float64"),
            high=high.astype("float64"),
            weight=count,
            count=count,
            last=np.full(len(count), np.nan),
            histogram=no_histograms(len(count)),
        ),
        high,
    )


def _companion(ticks: Ticks, name: str, known: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the column beside a thinned mean; if missing, the mean itself, or 1 for a count."""
    fallback = np.ones_like(means) if name.endswith(":count") else means
    if name not in ticks.columns:
        return np.asarray(fallback[known])
    values, have = ticks.columns[name]
    return np.asarray((values if have[known].all() else np.where(have, values, fallback))[known])


def _with_rates(recorded: _SessionSeries) -> Rows:
    """Return a counter's increase per second since the previous tick.

    It is unknown at a session's first tick, across a gap, and after a reset, when the increase
    could be anything from the new value up.
    """
    rows, size = recorded.rows, len(recorded.value)
    places = np.arange(size)
    before = np.maximum(places - 1, 0)
    elapsed_ms = rows.at_ms - rows.at_ms[before]
    growth = recorded.value - recorded.value[before]
    known = (elapsed_ms > 0) & (growth >= 0) & no_gap(rows, before, places)
    rate = np.where(known, growth * 1000.0 / np.where(known, elapsed_ms, 1), np.nan)
    return Rows(
        at_ms=rows.at_ms,
        width_ms=rows.width_ms,
        cadence_ms=rows.cadence_ms,
        low=rate,
        mean=rate,
        high=rate,
        weight=np.where(known, elapsed_ms, 0),
        count=known.astype("int64"),
        last=recorded.value.astype("float64"),
        histogram=rows.histogram,
    )
