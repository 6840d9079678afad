"""docker-compose.yml: locked down, restarted when it hangs, and with every documented setting."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import yaml

from tests.running_service import CHECKOUT, free_port

COMPOSE = CHECKOUT / "docker-compose.yml"
OURS = {"migrate", "web", "worker", "beat"}
KEYS = {
    "build", "cap_add", "cap_drop", "command", "depends_on", "environment", "healthcheck", "image",
    "mem_limit", "ports", "read_only", "restart", "security_opt", "stop_grace_period", "tmpfs",
    "user", "volumes",
}  # fmt: skip
"""The keys of the Compose specification: an unknown one would be refused."""
OF_THE_IMAGE = {"TRIMTAB_DATA_DIR", "TRIMTAB_STATIC_ROOT", "TRIMTAB_NO_VENV"}
"""Set in the Dockerfile, for the folders that it makes."""
DIGEST = re.compile(r"[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}")


def services() -> dict[str, dict[str, Any]]:
    found = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    assert isinstance(found, dict)
    return found


def documented_settings() -> set[str]:
    """Return the variables in the first column of the table of settings."""
    lines = (CHECKOUT / "docs" / "configuration.md").read_text(encoding="utf-8").splitlines()
    cells = [line.split("|")[1] for line in lines if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([A-Z][A-Z0-9_]+)`", cell)}


@pytest.mark.parametrize("name", sorted(services()))
def test_it_locks_every_container_down(name: str) -> None:
    service = services()[name]
    assert service.keys() <= KEYS
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    for place in service.get("tmpfs", []):
        assert "size=" in place, "memory without a limit"


@pytest.mark.parametrize("name", sorted(services()))
def test_it_restarts_every_container_and_waits_for_healthy_ones(name: str) -> None:
    service = services()[name]
    assert service["restart"] == ("on-failure" if name == "migrate" else "unless-stopped")
    for needed, how in service.get("depends_on", {}).items():
        if needed == "migrate":
            assert how["condition"] == "service_completed_successfully"
        else:
            assert how["condition"] == "service_healthy"
            assert "test" in services()[needed]["healthcheck"]


def test_it_passes_every_documented_setting_on() -> None:
    for name in OURS:
        passed = set(services()[name]["environment"])
        assert documented_settings() - OF_THE_IMAGE <= passed, name


def test_it_leaves_what_is_not_set_to_the_default_of_the_service() -> None:
    """An empty value isn't the same as none: it would be refused, or switch something off."""
    for name, value in services()["web"]["environment"].items():
        assert value != "", name


def images() -> Iterator[str]:
    yield from re.findall(
        r"^FROM (\S+)", (CHECKOUT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE
    )
    for service in services().values():
        if "build" not in service:
            yield service["image"]


def test_it_pins_every_image_of_others_by_its_digest() -> None:
    assert len(list(images())) == 5
    for image in images():
        assert DIGEST.fullmatch(image), image


WEB = """
import signal, sys, time
signal.signal(signal.SIGALRM, lambda *_: sys.exit(7))
print("ready", flush=True)
time.sleep(60)
"""


def check_health(port: int, first_process: int) -> int:
    """Run the check of the web container with little patience; its exit code."""
    code = (
        "import sys; from webapp.service import health_check as check;"
        f"check.PATIENCE_SECONDS, check.FIRST_PROCESS = 0.5, {first_process};"
        f"sys.exit(check.main({port}))"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=False).returncode


@pytest.fixture
def web() -> Iterator[subprocess.Popen[bytes]]:
    """Yield what the check takes for the web server."""
    with subprocess.Popen([sys.executable, "-c", WEB], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_it_ends_a_web_server_that_does_not_answer(web: subprocess.Popen[bytes]) -> None:
    assert check_health(free_port(), web.pid) == 1
    assert web.wait(20) == 7


def test_it_leaves_a_web_server_alone_that_answers(web: subprocess.Popen[bytes]) -> None:
    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert check_health(server.server_port, web.pid) == 0
        server.shutdown()
    os.kill(web.pid, signal.SIGTERM)
    assert web.wait(20) == -signal.SIGTERM


def test_the_web_container_uses_this_check() -> None:
    test = services()["web"]["healthcheck"]["test"]
    assert test == ["CMD", "python", "-m", "webapp.service.health_check", "8000"]
    assert services()["web"]["command"].endswith(":8000")
