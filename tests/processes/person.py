"""Someone who uses the pages of a running service."""

from __future__ import annotations

import re
from collections.abc import Mapping

import requests

from tests.running_service import Service


class Person:
    """The owner, in a browser without scripts."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.session = requests.Session()
        self.post(service.sign_in_link)

    def post(self, address: str, **form: str) -> None:
        self.send(address, address, form)

    def press(self, page: str, path: str) -> None:
        """Press a button of that page that asks for something elsewhere."""
        self.send(page, self.service.url + path, {})

    def send(self, source: str, address: str, form: Mapping[str, object]) -> str:
        """Fill in the form of the page `source`; the page that was answered."""
        page = self.session.get(source, timeout=20).text
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token is not None, page
        data = {**form, "csrfmiddlewaretoken": token[1]}
        answer = self.session.post(address, data=data, headers={"Referer": source}, timeout=20)
        assert answer.status_code == 200, answer.text
        return answer.text

    def page(self, address: str) -> str:
        """Return the page, or an empty text where there is none yet."""
        answer = self.session.get(address, timeout=20)
        return answer.text if answer.status_code == 200 else ""
