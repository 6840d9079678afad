"""SYNTHETIC: a stub of the AWS Price List's `GetProducts`, built from its published schema.

No answer of the real service was recorded, and moto has no such service. This speaks the protocol
as botocore's service model `pricing/2017-10-15` describes it (JSON 1.1, target prefix
`AWSPriceListService`): TERM_MATCH filters, pages by NextToken, throttling, tokens that expire.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

EFFECTIVE = "2026-11-01T00:00:00Z"
_TERM = "JRTCKXETXF"


def ec2_entry(name: str, usd: str, region: str = "us-east-1", **attributes: str) -> dict[str, Any]:
    """Return an hour of a machine on EC2."""
    own = {
        "instanceType": name,
        "regionCode": region,
        "tenancy": "Shared",
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "servicecode": "AmazonEC2",
        "usagetype": f"BoxUsage:{name}",
    }
    return entry("AmazonEC2", "Compute Instance", own | attributes, usd)


def sagemaker_entry(
    name: str, usd: str, component: str = "Training", region: str = "us-east-1"
) -> dict[str, Any]:
    """Return an hour of a machine of one of SageMaker's components."""
    own = {
        "instanceName": name,
        "regionCode": region,
        "component": component,
        "servicecode": "AmazonSageMaker",
    }
    return entry("AmazonSageMaker", "ML Instance", own, usd)


def entry(
    service: str, family: str, attributes: dict[str, str], usd: str, effective: str = EFFECTIVE
) -> dict[str, Any]:
    sku = sha256(f"{service}{attributes}".encode()).hexdigest()[:16].upper()
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${usd} per hour",
        "pricePerUnit": {"USD": usd},
    }
    term = {
        "priceDimensions": {f"{sku}.{_TERM}.6YS6EN2CT7": dimension},
        "sku": sku,
        "effectiveDate": effective,
        "offerTermCode": _TERM,
        "termAttributes": {},
    }
    return {
        "product": {"productFamily": family, "sku": sku, "attributes": attributes},
        "serviceCode": service,
        "terms": {"OnDemand": {f"{sku}.{_TERM}": term}},
        "version": "20261101000000",
        "publicationDate": EFFECTIVE,
    }


@dataclass
class PriceListStub:
    """The stub's entries and its behaviour."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    page_size: int = 100
    throttled: int = 0
    """The number of next requests to refuse."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    before_answer: Callable[[dict[str, Any]], None] = lambda question: None
    tokens_expired: bool = False
    url: str = ""

    def answer(self, question: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.append(question)
        self.before_answer(question)
        if self.throttled:
            self.throttled -= 1
            return 400, {"__type": "ThrottlingException", "message": "Rate exceeded"}
        token = question.get("NextToken", "")
        if token and self.tokens_expired:
            self.tokens_expired = False
            return 400, {"__type": "ExpiredNextTokenException", "message": "expired"}
        entries = [e for e in self.entries if _matches(e, question)]
        start = int(token.removeprefix("page-") or 0) if token else 0
        end = start + min(self.page_size, question.get("MaxResults", 100))
        page = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(e) for e in entries[start:end]]}
        return 200, page | ({"NextToken": f"page-{end}"} if end < len(entries) else {})


def _matches(listed: dict[str, Any], question: dict[str, Any]) -> bool:
    attributes = listed["product"]["attributes"] | {
        "productFamily": listed["product"]["productFamily"]
    }
    return listed["serviceCode"] == question["ServiceCode"] and all(
        attributes.get(f["Field"]) == f["Value"] for f in question.get("Filters", [])
    )


def bulk_file(*entries: dict[str, Any]) -> dict[str, Any]:
    """Return the entries as a bulk file holds them: products first, then terms."""
    products = {e["product"]["sku"]: e["product"] for e in entries}
    terms = {e["product"]["sku"]: e["terms"]["OnDemand"] for e in entries}
    return {
        "formatVersion": "v1.0",
        "disclaimer": "This pricing list is for informational purposes only.",
        "offerCode": entries[0]["serviceCode"],
        "version": "20261101000000",
        "publicationDate": EFFECTIVE,
        "products": products,
        "terms": {"OnDemand": terms, "Reserved": terms},
        "attributesList": {},
    }


@contextmanager
def served(stub: PriceListStub) -> Iterator[PriceListStub]:
    """Serve the stub on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            assert self.headers["X-Amz-Target"] == "AWSPriceListService.GetProducts"
            status, document = stub.answer(json.loads(self.rfile.read(length)))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    yield stub
    server.shutdown()
    server.server_close()
