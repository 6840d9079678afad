"""Parameters, tags and metrics of a request, checked, and what the run is to have of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from trimtab.wire import LIMITS

from advisor import mlflow_names
from webapp.mlflow_api.arguments import (
    MOST_BODY_BYTES,
    MOST_PARAM_CHARS,
    MOST_TAG_CHARS,
    Arguments,
)
from webapp.mlflow_api.errors import invalid_parameter
from webapp.mlflow_api.feeding import Metric
from webapp.mlflow_api.models import TrackedRun
from webapp.runs import tags as page_tags

MOST_METRICS, MOST_PARAMS, MOST_TAGS = 1_000, 100, 100
"""The most of one request: https://mlflow.org/docs/latest/api_reference/rest-api.html#log-batch."""
MOST_SENT_CHARS = MOST_BODY_BYTES
"""The longest value of a run that clients may send: it is cut."""
MOST_KEYS, MOST_CHARS = 5_000, 1_000_000
"""The most different metrics, parameters or tags of one run, each; and their length together."""


def metrics(arguments: Arguments) -> list[Metric]:
    return [metric(each) for each in arguments.parts("metrics", MOST_METRICS)]


def metric(each: Arguments) -> Metric:
    return Metric(
        each.key(), each.number("value"), each.moment_ms("timestamp"), each.whole_number("step", 0)
    )


def params(arguments: Arguments, most_chars: int = MOST_PARAM_CHARS) -> dict[str, str]:
    """Return the request's parameters. Raises MlflowError also if one of them has two values."""
    found: dict[str, str] = {}
    for each in arguments.parts("params", MOST_PARAMS):
        key, value = each.key(), each.value(most_chars)
        if found.setdefault(key, value) != value:
            raise invalid_parameter(f"Duplicate parameter key: '{key}'.")
    return found


def tags(arguments: Arguments, most_chars: int = MOST_TAG_CHARS) -> dict[str, str]:
    each = arguments.parts("tags", MOST_TAGS)
    return {tag.key(): tag.value(most_chars) for tag in each}


def shorten(
    params: Mapping[str, str], tags: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Cut long values of a run as MLflow's server does, and name them in a tag of the run."""
    long = [f"params.{key}" for key, value in params.items() if len(value) > MOST_PARAM_CHARS]
    long += [f"tags.{key}" for key, value in tags.items() if len(value) > MOST_TAG_CHARS]
    short_tags = {key: value[:MOST_TAG_CHARS] for key, value in tags.items()}
    if long:
        short_tags[mlflow_names.TRUNCATED] = ", ".join(long)[: LIMITS.name_chars]
    return {key: value[:MOST_PARAM_CHARS] for key, value in params.items()}, short_tags


def name_earlier_cuts(tracked: TrackedRun, tags: Mapping[str, str]) -> dict[str, str]:
    """Return new tags in which the tag that names cut values names those of earlier ones, too."""
    known, new = (each.get(mlflow_names.TRUNCATED, "") for each in (tracked.tags, tags))
    if not (known and new):
        return dict(tags)
    names = dict.fromkeys([*known.split(", "), *new.split(", ")])
    return {**tags, mlflow_names.TRUNCATED: ", ".join(names)[: LIMITS.name_chars]}


def add_params(tracked: TrackedRun, new: Mapping[str, str]) -> None:
    """Add parameters. Raises MlflowError for another value of a known parameter."""
    for key, value in new.items():
        if tracked.params.get(key, value) != value:
            raise invalid_parameter(
                f"Changing param values is not allowed. Param with key='{key}' was already logged "
                f"with value='{tracked.params[key][:200]}' for run ID='{tracked.pk.hex}'."
            )
    tracked.params = check_labels("parameters", {**tracked.params, **new})


def add_tags(tracked: TrackedRun, new: Mapping[str, str]) -> None:
    tracked.tags = check_labels("tags", {**tracked.tags, **new})
    tracked.name = tracked.tags.pop("mlflow.runName", "")[:500] or tracked.name


def check_shown(wanted: Mapping[str, str]) -> None:
    """Check tags. Raises MlflowError for those that a person couldn't give a job or run on its
    page.
    """
    try:
        page_tags.check(wanted)
    except ValueError as error:
        raise invalid_parameter(str(error)) from None


def add_latest(tracked: TrackedRun, new: Iterable[Metric]) -> None:
    """Add metrics: the value of the last step counts, then of the last time, then the greatest."""
    latest = dict(tracked.latest)
    for one in new:
        known = latest.get(one.key)
        order = (one.step, one.timestamp_ms, _order(one.value))
        if known is None or order >= (known[2], known[1], _order(float(known[0]))):
            latest[one.key] = [mlflow_names.to_json_number(one.value), one.timestamp_ms, one.step]
    tracked.latest = check_labels("metrics", latest)


def _order(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def check_labels(what: str, values: dict[str, Any]) -> dict[str, Any]:
    if len(values) > MOST_KEYS:
        raise invalid_parameter(f"The run would have more than {MOST_KEYS} {what}.")
    if size(values) > MOST_CHARS:
        raise invalid_parameter(
            f"The {what} of the run would have more than {MOST_CHARS} characters."
        )
    return values


def size(values: Mapping[str, Any]) -> int:
    """Return the characters of keys and texts."""
    return sum(len(key) + len(value) for key, value in values.items() if isinstance(value, str))
