"""Someone who uses the pages of a running service."""

from __future__ import annotations

import re

import requests

from tests.running_service import Service


class Person:
    """The owner, in a browser without scripts."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.session = requests.Session()
        self.post(service.sign_in_link)

    def post(self, address: str, **form: str) -> None:
        self._send(address, address, form)

    def press(self, page: str, path: str) -> None:
        """A button of that page that asks for something elsewhere."""
        self._send(page, self.service.url + path, {})

    def _send(self, source: str, address: str, form: dict[str, str]) -> None:
        page = self.session.get(source, timeout=20).text
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token is not None, page
        form |= {"csrfmiddlewaretoken": token[1]}
        answer = self.session.post(address, data=form, headers={"Referer": source}, timeout=20)
        assert answer.status_code == 200, answer.text

    def page(self, address: str) -> str:
        """Empty where there is none yet."""
        answer = self.session.get(address, timeout=20)
        return answer.text if answer.status_code == 200 else ""
