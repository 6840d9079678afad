"""AWS's bulk price files, for services without credentials. Downloaded once, read as a stream.

One file holds every price of a service in a region, some hundred megabytes for EC2. It lists all
products first and their prices after, so only the products that matter are kept in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

import requests

from advisor.pricing.providers.aws.offers import SERVICE_CODES, instance_type, offer
from advisor.pricing.providers.provider import Offer

PUBLIC_URL = (
    "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/{code}/current/{region}/index.json"
)
_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_SPACE = re.compile(r"[\s,:]*")

Progress = Callable[[int, int], None]
"""Bytes so far, and in total (0: unknown)."""


def public_url(service: str, region: str) -> str:
    """Return the public URL of the newest file of one service and region."""
    return PUBLIC_URL.format(code=SERVICE_CODES[service], region=region)


def fetch(url: str, folder: Path, progress: Progress) -> Path:
    """Download `url` to `folder`. An interrupted download is resumed.

    Raises:
        requests.RequestException: the download failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "-".join(part for part in urlsplit(url).path.split("/") if part)
    part = whole.with_suffix(".part")
    begun = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={begun}-"} if begun else {}
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS) as answer:
        if answer.status_code != requests.codes.requested_range_not_satisfiable:
            answer.raise_for_status()
            resumed = answer.status_code == requests.codes.partial_content
            _append(answer, part, begun if resumed else 0, progress)
    part.rename(whole)
    return whole


def _append(answer: requests.Response, part: Path, begun: int, progress: Progress) -> None:
    in_all = begun + int(answer.headers.get("Content-Length", 0))
    with part.open("ab" if begun else "wb") as file:
        for chunk in answer.iter_content(_CHUNK):
            file.write(chunk)
            progress(file.tell(), in_all)


def offers(file: TextIO) -> Iterator[Offer]:
    """Yield the on-demand prices of training machines in a bulk file.

    Raises:
        ValueError: not such a file, or it is truncated.
    """
    stream = _Stream(file)
    products: dict[str, dict[str, Any]] = {}
    service = ""
    for name in stream.members():
        if name == "offerCode":
            service = _service(stream.value())
        elif name == "products":
            products = _machines(stream, service)
        elif name == "terms":
            yield from _priced(stream, service, products)
        else:
            stream.value()
    if not service:
        raise ValueError("not a bulk price file of AWS: it has no offerCode")


def _service(code: Any) -> str:
    known = {code: service for service, code in SERVICE_CODES.items()}
    if code not in known:
        raise ValueError(f"a bulk price file of {code}; expected one of {', '.join(known)}")
    return known[code]


def _machines(stream: _Stream, service: str) -> dict[str, dict[str, Any]]:
    every = ((sku, stream.value()) for sku in stream.members())
    return {sku: product for sku, product in every if instance_type(service, product)}


def _priced(stream: _Stream, service: str, products: dict[str, dict[str, Any]]) -> Iterator[Offer]:
    for kind in stream.members():
        for sku in stream.members():
            terms = stream.value()
            if kind == "OnDemand" and sku in products:
                entry = {"product": products[sku], "terms": {"OnDemand": terms}}
                priced = offer(service, entry)
                if priced:
                    yield priced


class _Stream:
    """A streaming JSON parser that keeps one value in memory."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._decoder = json.JSONDecoder()

    def members(self) -> Iterator[str]:
        """Yield the names in the next object. Read the value of each before the next name."""
        self._expect("{")
        while self._next() != "}":
            yield self.value()
        self._at += 1

    def value(self) -> Any:
        """Return the whole next value."""
        self._next()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._more():
                    raise ValueError(
                        f"the price file ends too early or is broken: {error.msg}"
                    ) from None
                continue
            if end < len(self._text) or not self._more():
                self._at = end
                return value

    def _expect(self, character: str) -> None:
        if self._next() != character:
            raise ValueError(f"not a bulk price file of AWS: expected {character}")
        self._at += 1

    def _next(self) -> str:
        """Return the next character of a value."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise ValueError("the price file ends too early")

    def _more(self) -> bool:
        read = self._file.read(_CHUNK)
        self._text = self._text[self._at :] + read
        self._at = 0
        return bool(read)
