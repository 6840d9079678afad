"""The protocol of `python -m advisor predict`: JSON lines in, JSON lines out.

A context line tells what a workspace knows; a query is answered with speeds and advice. The whole
protocol is in docs/speed.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from advisor.speed.decision import MAX_SLOWER, Cost, Decision, decide
from advisor.speed.knowledge import Knowledge
from advisor.speed.measurement import Measurement, Target
from advisor.speed.prediction import Prediction, Speed, predict

Document = dict[str, Any]
LARGEST = 1e30


class WrongInputError(Exception):
    """A line that can't be answered; `field` names the part, such as `measured[0].gpu`."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


def answers(lines: Iterable[str]) -> Iterator[str]:
    """Yield one line for each query and for each line that is wrong; none for a context."""
    contexts: dict[str, Knowledge] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            answer = _answer(line, number, contexts)
            if answer is not None:
                yield json.dumps(answer)


def _answer(line: str, number: int, contexts: dict[str, Knowledge]) -> Document | None:
    """Return the answer, or None for a context line."""
    document: object = None
    try:
        document = _parsed(line)
        if "context" in document:
            contexts[_name(document["context"], "context")] = _knowledge(document)
            return None
        return _answer_to(document, contexts)
    except WrongInputError as error:
        named = {"id": document.get("id")} if isinstance(document, dict) else {}
        wrong = {"line": number, "field": error.field, "message": error.problem}
        return named | {"error": wrong}


def _parsed(line: str) -> Document:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WrongInputError("", f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise WrongInputError("", "not a JSON object")
    return document


def _knowledge(document: Document) -> Knowledge:
    return Knowledge(_measurements(document.get("history", []), "history"))


def _answer_to(query: Document, contexts: Mapping[str, Knowledge]) -> Document:
    if "id" not in query:
        raise WrongInputError("id", "is missing")
    measured = _measurements(query.get("measured"), "measured")
    if not measured:
        raise WrongInputError("measured", "is empty: the present run is its first entry")
    targets = _targets(query.get("targets"), measured[0].gpus)
    prices = _prices(query.get("prices"))
    max_slower = _number(query, "max_slower", "max_slower", MAX_SLOWER, least=0.0)
    rounds = _number(query, "round", "round", 0, least=0.0)
    prediction = predict(measured, targets, _context(query, contexts))
    costs = _costs(measured[0], targets, prices)
    advice = decide(prediction, costs, float(max_slower or 0.0), int(rounds or 0))
    return {
        "id": query["id"],
        "speed": [_as_document(speed) for speed in prediction.speeds],
        "advice": _advice(advice, prediction),
    }


def _context(query: Document, contexts: Mapping[str, Knowledge]) -> Knowledge:
    named = query.get("context_id")
    if named is None:
        return Knowledge()
    name = _name(named, "context_id")
    if name not in contexts:
        raise WrongInputError("context_id", f"no context line named {name!r} came before")
    return contexts[name]


def _measurements(values: object, field: str) -> list[Measurement]:
    return [_measurement(v, f"{field}[{n}]") for n, v in enumerate(_list(values, field))]


def _measurement(value: object, field: str) -> Measurement:
    entry = _object(value, field)
    util = _number(entry, "util_pct", f"{field}.util_pct", None, least=0.0)
    rel_sd = _number(entry, "rel_sd", f"{field}.rel_sd", None, least=0.0)
    steps = _number(entry, "probe_steps", f"{field}.probe_steps", None, least=0.0)
    throughput = _number(entry, "throughput", f"{field}.throughput", None, least=0.0)
    if not throughput:
        raise WrongInputError(f"{field}.throughput", "must be a positive number")
    return Measurement(
        workload=_name(entry.get("workload", ""), f"{field}.workload"),
        gpu=_gpu(entry, field),
        throughput=throughput,
        precision=_text(entry.get("precision"), f"{field}.precision"),
        batch=_number(entry, "batch", f"{field}.batch", None, least=0.0),
        gpus=_count(entry, field, 1),
        util_pct=util,
        util_kind=_text(entry.get("util_kind"), f"{field}.util_kind"),
        probe_steps=None if steps is None else int(steps),
        rel_sd=rel_sd,
    )


def _targets(values: object, gpus: int) -> list[Target]:
    found = []
    for number, value in enumerate(_list(values, "targets")):
        field = f"targets[{number}]"
        entry = {"gpu": value} if isinstance(value, str) else _object(value, field)
        found.append(Target(_gpu(entry, field), _count(entry, field, gpus)))
    return found


def _costs(
    present: Measurement, targets: Iterable[Target], prices: Mapping[str, float]
) -> list[Cost]:
    """Return the costs of the targets. Without the present GPU's price nothing can be compared."""
    here = prices.get(present.gpu)
    if not here:
        return [Cost(None) for _ in targets]
    return [
        Cost(prices[t.gpu] * t.gpus / (here * present.gpus) if t.gpu in prices else None)
        for t in targets
    ]


def _prices(value: object) -> dict[str, float]:
    """Return the USD per GPU-hour. A null is no price."""
    entry = {} if value is None else _object(value, "prices")
    found = {gpu: _number(entry, gpu, f"prices.{gpu}", None, least=0.0) for gpu in entry}
    return {gpu: price for gpu, price in found.items() if price}


def _as_document(speed: Speed) -> Document:
    named: Document = {"gpu": speed.target.gpu, "gpus": speed.target.gpus}
    if speed.missing:
        return named | {"low": None, "median": None, "high": None, "missing": speed.missing}
    figures = {"low": speed.low(), "median": speed.median, "high": speed.high()}
    return named | {name: round(v, 6) for name, v in figures.items()} | {"rung": speed.rung}


def _advice(advice: Decision, prediction: Prediction) -> Document:
    """Return the advice as JSON. Several counts of one GPU are one model to measure."""
    gpus = list(dict.fromkeys(prediction.speeds[n].target.gpu for n in advice.targets))
    if not gpus:
        return {"kind": advice.kind}
    saving = {"saving": round(advice.saving, 4)}
    if advice.odds is None:
        target = prediction.speeds[advice.targets[0]].target
        return {"kind": advice.kind, "gpu": target.gpu, "count": target.gpus} | saving
    return {"kind": advice.kind, "gpus": gpus} | saving | {"odds": round(advice.odds, 3)}


def _gpu(entry: Mapping[str, Any], field: str) -> str:
    gpu = entry.get("gpu")
    if not isinstance(gpu, str) or not gpu.strip():
        raise WrongInputError(f"{field}.gpu", "must be the name of a GPU")
    return gpu


def _count(entry: Mapping[str, Any], field: str, default: int) -> int:
    count = _number(entry, "gpus", f"{field}.gpus", default, least=1.0)
    if count is None or count != int(count):
        raise WrongInputError(f"{field}.gpus", "must be a whole number")
    return int(count)


def _number(
    entry: Mapping[str, Any], key: str, field: str, default: float | None, least: float
) -> float | None:
    """Return the number, or `default` if the key is missing or null."""
    value = entry.get(key)
    if value is None:
        return default
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value < LARGEST:
        raise WrongInputError(field, f"must be a number of at least {least:g}")
    return float(value)


def _name(value: object, field: str) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise WrongInputError(field, "must be a text")


def _text(value: object, field: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise WrongInputError(field, "must be a text")


def _list(value: object, field: str) -> list[Any]:
    if isinstance(value, list):
        return value
    raise WrongInputError(field, "is missing" if value is None else "must be a list")


def _object(value: object, field: str) -> Document:
    if isinstance(value, dict):
        return value
    raise WrongInputError(field, "must be an object")
