"""One watched run on this node: sampler, spool and uploader put together."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from trimtab import __version__, git, identity
from trimtab.draft import Draft
from trimtab.hardware import node_facts
from trimtab.loops import Sealed, TrainingLoops
from trimtab.options import Options
from trimtab.redaction import redacted, secrets_of
from trimtab.sampler import Sampler
from trimtab.sources import ProcessTree, machine_sources
from trimtab.spool import Spool, open_spool
from trimtab.supervise import Ending
from trimtab.timeline import Timeline
from trimtab.uploader import Uploader
from trimtab.wire import Declaration, Segment, encode_declaration, encode_segment

_LAST_SAMPLE_SECONDS = 2.0
_FOLDER_PREFIX = "trimtab-run-"


class Session:
    """From just before the command starts until its last segment is on its way."""

    def __init__(
        self,
        command: Sequence[str],
        options: Options,
        environment: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self.id = uuid4()
        self.run_id: UUID = identity.run_id(options.server, environment)
        self.spool: Spool = open_spool()
        _sweep_folders_of_killed_agents()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-"))
        self.uploader: Uploader | None = None
        self._options = options
        self._say = say
        self._repository = git.repository(Path.cwd())
        self._declaration = self._declare(command, environment)
        self._timeline = Timeline()
        self._clock = self._timeline.session_clock(self.id)
        self._next_seq = 0
        self._sampler: Sampler | None = None
        self._tree: ProcessTree | None = None

    def start(self, pid: int) -> None:
        """The command runs as `pid`: begin to sample and to upload."""
        destination = self._options.server.destination
        self.spool.add_session(str(self.id), str(self.run_id), destination)
        self.spool.declare(str(self.id), encode_declaration(self._declaration))
        sources = machine_sources()
        with suppress(OSError):
            self._tree = ProcessTree(pid)
            sources.append(self._tree)
        loops = TrainingLoops(self.folder, self._timeline)
        interval = self._options.interval_seconds
        self._sampler = Sampler(sources, loops, self._timeline, interval, self._seal)
        self._sampler.start()
        if self._options.server.url:
            self.uploader = Uploader(self.spool, self._options.server, str(self.id), self._say)
            self.uploader.start()
        threading.Thread(target=self._add_git_state, daemon=True).start()

    def finish(self, ending: Ending, at_most_seconds: float) -> None:
        """Take the last sample, seal, and upload what is left, within the time given."""
        until = time.monotonic() + at_most_seconds
        if self._tree:
            self._tree.reaped(ending.cpu_seconds)
        facts: dict[str, Any] = {"state": ending.state, "exit_code": ending.exit_code}
        if self._sampler:
            exit_facts: dict[str, Any] = {"exit_code": ending.exit_code}
            events = [("process_exit", exit_facts), ("session_end", facts)]
            self._sampler.finish(events, _LAST_SAMPLE_SECONDS)
            if self._sampler.problem:
                self._say(f"a sample was lost: {self._sampler.problem}")
        if self.uploader:
            self.uploader.flush(max(0.1, until - time.monotonic()))
        self.spool.release(str(self.id))
        self.clean_up()

    def clean_up(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def waiting(self) -> int:
        """Segments and declarations of this session that the service hasn't taken."""
        contents = self.spool.contents([str(self.id)])
        return contents.waiting + contents.undeclared

    def _seal(self, draft: Draft, loops: Sealed, ended_ns: int) -> None:
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        events = [*loops.events, *draft.events]
        for event in events:
            if event.kind == "session_end":
                event.data["final_seq"] = seq
        segment = Segment(
            run_id=self.run_id,
            job=self._declaration.job,
            attempt=self._declaration.attempt,
            machine_id=self._declaration.node.machine_id,
            clock=self._clock,
            seq=seq,
            start_ms=draft.start_ns // 1_000_000,
            duration_ms=(ended_ns - draft.start_ns) // 1_000_000,
            resolution_ms=round(self._options.interval_seconds * 1000),
            blocks=draft.blocks(),
            steps=loops.steps,
            step_summaries=loops.summaries,
            events=events,
        )
        self.spool.add(str(self.id), seq, encode_segment(segment))
        if self.uploader:
            self.uploader.wake()

    def _declare(self, command: Sequence[str], environment: Mapping[str, str]) -> Declaration:
        options = self._options
        facts = node_facts(identity.machine_id(environment))
        options.apply_to(facts)
        secrets = [options.server.token, *secrets_of(environment)]
        secrets = [secret for secret in secrets if secret]
        entry_point = identity.shortened(redacted([identity.entry_point(command)], secrets)[0])
        return Declaration(
            run_id=self.run_id,
            job=options.job or identity.job_name(command, self._repository),
            attempt=identity.attempt(environment),
            session_id=self.id,
            node=facts,
            owner=options.owner,
            tags=options.tags,
            parameters=dict(options.parameters),
            command=redacted(command, secrets)[:500],
            agent_version=__version__,
            workload={"entry_point": entry_point, **options.workload},
        )

    def _add_git_state(self) -> None:
        """In a thread of its own: in a large repository git takes seconds."""
        with suppress(Exception):
            if self._repository:
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
                state = git.state(self._repository.folder)
                declaration = self._declaration
                declaration.git_commit, declaration.git_branch = state.commit, state.branch
                declaration.git_dirty = state.dirty
                self.spool.declare(str(self.id), encode_declaration(declaration))
                if self.uploader:
                    self.uploader.wake()


def _sweep_folders_of_killed_agents() -> None:
    """A training that outlived its agent keeps its rings: they are mapped, so only names go."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*-*"):
        pid = folder.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)
