"""The uploads of an agent, as bytes that can be kept in a file and sent later."""

from __future__ import annotations

import base64
import time
from typing import Any

import requests

from webapp.sample_data.load import SampleUpload

TIMEOUT_SECONDS = 30


def send(url: str, token: str, upload: SampleUpload) -> None:
    """Send an upload as the agent does it; raises HTTPError unless it is taken."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Encoding": "gzip",
        "Content-Type": upload.content_type,
        "X-Trimtab-Sent-At": str(time.time_ns()),
    }
    answer = requests.put(url + upload.path, upload.body, headers=headers, timeout=TIMEOUT_SECONDS)
    answer.raise_for_status()


def to_document(upload: SampleUpload) -> dict[str, str]:
    body = base64.b64encode(upload.body).decode()
    return {"path": upload.path, "content_type": upload.content_type, "body": body}


def from_document(document: dict[str, Any]) -> SampleUpload:
    body = base64.b64decode(document["body"])
    return SampleUpload(document["path"], document["content_type"], body)
