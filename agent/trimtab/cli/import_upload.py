"""Packs a folder or file, and sends it part by part."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from trimtab import identity
from trimtab.cli import import_waiting
from trimtab.cli.arguments import say
from trimtab.identity import ServiceAccess
from trimtab.packing import Parts, content_digest
from trimtab.spool import Spool, open_spool
from trimtab.uploader import Courier
from trimtab.wire import job_of_training

WHOLE, PART = "import", "import-part"
_PATIENCE_SECONDS = 60.0


class FolderUpload:
    """Packs and sends part by part, so that any size needs little room."""

    def __init__(self, server: ServiceAccess, source: Path, said_job: str) -> None:
        self._server, self._source = server, source
        self._job = identity.shorten_name(said_job or job_of_training(_folder_name(source)))
        self._spool: Spool = open_spool()
        self._session = str(uuid4())
        self._courier = Courier(self._spool, server, say) if server.url else None

    def carry_out(
        self, said_run: str | None, said: Mapping[str, object], wait_seconds: float | None = None
    ) -> int:
        """Send all of it, and then wait for its conversion if somebody wants that.

        Args:
            said: what is known of the run, for the service.

        Returns:
            The exit code.
        """
        run = self._run(said_run)
        document = {"version": 1, "name": self._source.name, **said}
        self._spool.add_session(self._session, str(run), self._server.destination)
        try:
            with tempfile.TemporaryDirectory(prefix="trimtab-import-") as folder:
                sent = self._packed(Path(folder), run, document)
        finally:
            self._spool.release(self._session)
        return sent or import_waiting.follow(self._server, str(run), wait_seconds)

    def _packed(self, folder: Path, run: UUID, document: dict[str, object]) -> int:
        name, parts, size_bytes = self._source.name, [], 0
        for number, part in enumerate(Parts(self._source, folder), start=1):
            parts.append(part.sha256)
            size_bytes += part.size_bytes
            if not self._add(PART, part.path, f"{name}.tar.gz.{number:03d}"):
                return 1
            if self._is_full():
                say(
                    "the service doesn't answer, and the spool can't keep all parts: "
                    f"{self._courier.problem if self._courier else 'no service is set'}. Import "
                    "the folder again when it does."
                )
                return 1
        whole = folder / "description"
        whole.write_text(json.dumps({**document, "parts": parts}, sort_keys=True))
        if not self._add(WHOLE, whole, f"{name}.import.json"):
            return 1
        print(f"packed {size_bytes} bytes for run {run} of job {self._job}")
        return self._sent(run)

    def _add(self, kind: str, path: Path, name: str) -> bool:
        if not self._spool.artefacts.add(self._session, kind, path, name, self._job):
            problem = self._spool.problem
            say(f"there is no folder for the spool: {problem}. Set TRIMTAB_STATE_DIR.")
            return False
        self._send(0.0)
        return True

    def _is_full(self) -> bool:
        """Return whether a further part would push an unsent one out of the spool."""
        if self._spool.artefacts.has_room():
            return False
        self._send(_PATIENCE_SECONDS)
        return not self._spool.artefacts.has_room()

    def _send(self, patience_seconds: float) -> None:
        """Send what waits. At the first failure, try again for so long."""
        courier = self._courier
        if courier is None:
            return
        until = time.monotonic() + patience_seconds
        while (sent := courier.send_one([self._session])) is not None:
            if sent is False and (courier.not_allowed or time.monotonic() >= until):
                return
            time.sleep(max(0.0, min(courier.not_before, until) - time.monotonic()))

    def _sent(self, run: UUID) -> int:
        if self._courier is None:
            say("kept in the spool: no service is set. Set TRIMTAB_URL and run `trimtab sync`.")
            return 1
        self._send(_PATIENCE_SECONDS)
        if self._courier.refused:
            return 1
        if self._spool.artefacts.count([self._session]):
            problem = self._courier.problem.rstrip(".")
            say(f"kept in the spool: {self._server.url}: {problem}. Run `trimtab sync` later.")
            return 1
        print(self._server.page(run), flush=True)
        return 0

    def _run(self, said: str | None) -> UUID:
        if said:
            return identity.run_id(self._server, {"TRIMTAB_RUN": said})
        digest = content_digest(self._source)
        return uuid5(NAMESPACE_URL, f"{self._server.destination}/import/{digest}")


def _folder_name(source: Path) -> str:
    """Return the job's folder, if a part of it is imported."""
    inner = ("profiler-output", "rule-output", "system", "framework")
    return next((p.name for p in (source, *source.parents) if p.name not in inner), source.name)
