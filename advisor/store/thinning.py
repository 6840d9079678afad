"""Steps and events of a long run in less memory: sums of neighbours, as agents send them too."""

from __future__ import annotations

import pandas as pd

from advisor.store.room import MOST_EVENTS, MOST_STEP_ROWS, RoomExceededError

STEP_WIDTHS_SECONDS = (1.0, 10.0, 60.0)
METRIC_WIDTHS_SECONDS = (10.0, 60.0, 600.0)


class ThinnedSteps:
    """The steps of a run's hours, summarised by seconds or more once there are too many."""

    def __init__(self, most: int = MOST_STEP_ROWS) -> None:
        self._most = most
        self._rows = 0
        self._widths = list(STEP_WIDTHS_SECONDS)
        self._width = 0.0

    def add(self, hours: list[pd.DataFrame], hour: pd.DataFrame) -> None:
        """Append an hour to those of its node. Raises TooLargeError."""
        hours.append(_summed(hour, self._width))
        self._rows += len(hours[-1])
        while self._rows > self._most:
            self._make_room(hours)

    def _make_room(self, hours: list[pd.DataFrame]) -> None:
        if not self._widths:
            raise RoomExceededError(f"more than {self._most:,} seconds with training steps")
        self._width = self._widths.pop(0)
        self._rows -= sum(len(hour) for hour in hours)
        hours[:] = [_summed(hour, self._width) for hour in hours]
        self._rows += sum(len(hour) for hour in hours)


def _summed(steps: pd.DataFrame, width_seconds: float) -> pd.DataFrame:
    """Return the steps of one rank and phase that begin within the same `width_seconds` as one row.

    A row is `count` steps with their mean duration and wait, and the sums of their samples and
    tokens. What was not measured stays apart from what was.
    """
    if not width_seconds or not len(steps):
        return steps
    wait, count = steps["data_wait_seconds"], steps["count"]
    keys = [
        (steps["start_seconds"] // width_seconds).rename("bucket"),
        steps["rank"],
        steps["phase"],
        wait.isna().rename("no_wait"),
        steps["samples"].isna().rename("no_samples"),
        steps["tokens"].isna().rename("no_tokens"),
    ]
    sums = {
        "start_seconds": steps["start_seconds"],
        "duration_seconds": steps["duration_seconds"] * count,
        "data_wait_seconds": wait * count,
        "samples": steps["samples"],
        "count": count,
        "tokens": steps["tokens"],
    }
    groups = pd.DataFrame(sums, copy=False).groupby(keys, observed=True, sort=True)
    total = groups.sum(min_count=1)
    total["start_seconds"] = groups["start_seconds"].min()
    for name in ("duration_seconds", "data_wait_seconds"):
        total[name] /= total["count"]
    rows = total.reset_index(["rank", "phase"]).sort_values("start_seconds", kind="stable")
    rows = rows.reset_index(drop=True)[list(steps.columns)]
    return rows.astype(steps.dtypes.to_dict())


class Events:
    """The events of a run's hours; of metrics fewer values are kept once there are too many."""

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._most = most
        self._rows = 0
        self._widths = list(METRIC_WIDTHS_SECONDS)
        self._width = 0.0

    def add(self, hours: list[pd.DataFrame], hour: pd.DataFrame) -> None:
        """Append an hour to those of its node. Raises TooLargeError."""
        hours.append(_thinned(hour, self._width))
        self._rows += len(hours[-1])
        while self._rows > self._most:
            self._make_room(hours)

    def _make_room(self, hours: list[pd.DataFrame]) -> None:
        if not self._widths:
            raise RoomExceededError(f"more than {self._most:,} events")
        self._width = self._widths.pop(0)
        self._rows -= sum(len(hour) for hour in hours)
        hours[:] = [_thinned(hour, self._width) for hour in hours]
        self._rows += sum(len(hour) for hour in hours)


def _thinned(events: pd.DataFrame, width_seconds: float) -> pd.DataFrame:
    """Keep the least, the greatest and the last value of each metric and rank in each
    `width_seconds`, and all other events.
    """
    is_metric = (events["kind"] == "metric").to_numpy(dtype=bool)
    if not width_seconds or not is_metric.any():
        return events
    metrics = events[is_metric]
    data = metrics["data"]
    value = pd.to_numeric(data.map(lambda each: each.get("value")), errors="coerce")
    keys = [
        metrics["time_seconds"] // width_seconds,
        data.map(lambda each: str(each.get("name"))),
        data.map(lambda each: str(each.get("rank"))),
    ]
    groups = value.groupby([key.to_numpy() for key in keys])
    known = value.notna()
    by_known = value[known].groupby([key.to_numpy()[known.to_numpy()] for key in keys])
    kept = {*by_known.idxmin(), *by_known.idxmax(), *groups.tail(1).index}
    chosen = ~is_metric | events.index.isin(kept)
    return events[chosen].reset_index(drop=True)
