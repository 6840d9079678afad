"""The authorities that the agent trusts over HTTPS."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from trimtab.identity import ServiceAccess
from trimtab.transport import ServiceConnection

from tests.agent.conftest import TOKEN
from tests.agent.service import Service


@pytest.fixture
def secured(tmp_path) -> Iterator[tuple[Service, Path]]:
    """Yield a service with TLS, and the certificate that it signed itself."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=service"]
    request += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(request, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    service = Service(tls)
    yield service, certificate
    service.close()


def test_https_trusts_only_the_named_authority(trimtab, environment, secured):
    service, certificate = secured
    online = environment | {"TRIMTAB_URL": service.url, "TRIMTAB_TOKEN": TOKEN}
    trimtab(online, "run", "--", "true")
    assert service.requests == []
    done = trimtab(online | {"SSL_CERT_FILE": str(certificate)}, "sync")
    assert (done.returncode, len(service.bodies)) == (0, 1)


def test_https_trusts_an_authority_of_the_systems_folder(trimtab, environment, secured, folder):
    service, certificate = secured
    asked = ["openssl", "x509", "-hash", "-noout", "-in", certificate]
    name = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    (folder / f"{name}.0").symlink_to(certificate)
    online = environment | {"TRIMTAB_URL": service.url, "TRIMTAB_TOKEN": TOKEN}
    trimtab(online | {"SSL_CERT_DIR": str(folder)}, "run", "--", "true")
    assert len(service.bodies) == 1


def test_https_trusts_an_authority_that_is_in_the_systems_bundle_only(secured, folder, monkeypatch):
    service, certificate = secured
    (folder / "0badbeef.0").symlink_to(certificate)  # not found by this name
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    connection = ServiceConnection(ServiceAccess(service.url, TOKEN))
    assert "CERTIFICATE_VERIFY_FAILED" in connection.get("runs/1").problem
    connection = ServiceConnection(ServiceAccess(service.url, TOKEN))
    with_bundle = partial(ssl.create_default_context, cafile=certificate)
    monkeypatch.setattr(ssl, "create_default_context", with_bundle)
    assert connection.get("runs/1").status == 200
    assert connection.get("runs/2").status == 200


@pytest.fixture
def folder(tmp_path) -> Path:
    """Make a folder in place of the system's folder of authorities."""
    path = tmp_path / "certs"
    path.mkdir()
    return path
