"""An OpenID Connect provider on the loopback: description, keys, token and userinfo endpoints.

Tests play the browser: they read the address that the service leads to and come back with the
code and state that a provider would add. The token endpoint insists on PKCE, the client's secret
and a code that is used once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT_ID, CLIENT_SECRET = "trimtab", "a secret of the test"


@dataclass
class Provider:
    """A provider whose answers can be changed between the steps of a sign-in."""

    address: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    """The claims of the ID token, over the right ones."""
    userinfo: dict[str, Any] = field(default_factory=dict)
    described_issuer: str = ""
    signing_key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048))
    published_key: RSAKey | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def answer_to(self, address: str) -> str:
        """Return the query that it sends a person back with who came by `address`."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return urlencode({"code": code, "state": asked["state"]})

    def description(self) -> dict[str, Any]:
        return {
            "issuer": self.described_issuer or self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "userinfo_endpoint": f"{self.address}/userinfo",
            "jwks_uri": f"{self.address}/keys",
            "response_types_supported": ["code"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def keys(self) -> dict[str, Any]:
        key = self.published_key or self.signing_key
        return dict(KeySet([key]).as_dict(private=False))

    def token(self, form: dict[str, str], secret: str) -> dict[str, Any]:
        """Answer at the token endpoint. Raises KeyError or AssertionError for what a provider
        refuses.
        """
        asked = self.codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
        assert asked["redirect_uri"] == form["redirect_uri"]
        assert secret == CLIENT_SECRET
        right = {
            "iss": self.address,
            "aud": CLIENT_ID,
            "sub": "person-1",
            "nonce": asked["nonce"],
            "iat": int(time.time()),
            "exp": int(time.time()) + 60,
        }
        self.signing_key.ensure_kid()
        header = {"alg": "RS256", "kid": self.signing_key.kid}
        id_token = jwt.encode(header, right | self.claims, self.signing_key)
        return {"access_token": "access", "token_type": "Bearer", "id_token": id_token}


def serve(provider: Provider) -> ThreadingHTTPServer:
    """Serve on a free port; stop it by `shutdown` and `server_close`."""

    class Doors(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages = {
                "/.well-known/openid-configuration": provider.description,
                "/keys": provider.keys,
                "/userinfo": lambda: provider.userinfo,
            }
            self._answer(200, pages[urlsplit(self.path).path]())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            scheme, _, encoded = self.headers.get("Authorization", "").partition(" ")
            secret = base64.b64decode(encoded).decode().partition(":")[2] if scheme else ""
            try:
                self._answer(200, provider.token(form, secret))
            except (KeyError, AssertionError):
                self._answer(400, {"error": "invalid_grant"})

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Doors)
    provider.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
