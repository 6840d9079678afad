"""One measured run on this node: connects sampler, spool and uploader."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from trimtab import identity, mlflow_context, platforms, profiles, run_folder
from trimtab.declaration import MeasurementSubject, add_git_state, build_declaration
from trimtab.directives import Actions, Directives
from trimtab.draft import SegmentDraft
from trimtab.failure import FailureFacts
from trimtab.kept_stderr import KeptStderr
from trimtab.loops import LoopRecords, TrainingLoops
from trimtab.options import Options, script_parameters
from trimtab.run_folder import CurrentRun, ScriptParameters
from trimtab.sampler import Sampler
from trimtab.sharing import JoinedProcesses, living_processes, wait_for_others, worst_exit_code
from trimtab.sources import Gpus, ProcessTree, SeriesSource, Stages, machine_sources
from trimtab.spool import Spool, open_spool
from trimtab.supervise import CommandEnding
from trimtab.timeline import SessionTimeline
from trimtab.uploader import Uploader
from trimtab.wire import Event, Gpu, Segment, encode_declaration, encode_segment

if TYPE_CHECKING:
    from trimtab.probe import Watch

_LAST_SAMPLE_SECONDS = 2.0
_OTHERS_SECONDS = 2.0
_FOLDER_PREFIX = "trimtab-run-"

Stop = Callable[[str, float], None]
"""A function that ends the command for a rule, with some seconds between SIGTERM and SIGKILL."""


class Session:
    """Measurement from just before the command starts until its last segment is on its way."""

    def __init__(
        self,
        target: MeasurementSubject,
        options: Options,
        say: Callable[[str], None],
        folder: Path | None = None,
        watch: Watch | None = None,
    ) -> None:
        """Prepare a measurement.

        Args:
            folder: of an agent that measured this run before and has ended.
            watch: follows the steps, if this is a probe.
        """
        self.id = uuid4()
        self.run_id: UUID = identity.run_id(options.server, target.environment)
        self.spool: Spool = open_spool()
        _sweep_folders_of_killed_agents()
        self._taken_over = folder is not None
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-"))
        if options.profile:
            profiles.request(self.folder, options.profile)
        self.uploader: Uploader | None = None
        self._target, self._options, self._say = target, options, say
        self._watch = watch
        self._secrets = target.secrets(options)
        self._declaration = build_declaration(self.id, self.run_id, target, options)
        self._declaring = threading.Lock()
        self._script_parameters = ScriptParameters(self.folder)
        self._own_events: list[tuple[int, str, dict[str, Any]]] = []
        self._timeline = SessionTimeline()
        self._clock = self._timeline.session_clock(self.id)
        page = options.server.page(self.run_id)
        session = mlflow_context.describe(self._declaration, self._clock)
        run_folder.publish(self.folder, CurrentRun(str(self.run_id), page, session))
        self._next_seq = 0
        self._sampler: Sampler | None = None
        self._tree: ProcessTree | None = None
        self._failure = FailureFacts()
        self._collector = threading.Thread(target=self._collect, daemon=True)

    def start(self, pid: int | None, stop: Stop | None = None) -> None:
        """Begin to sample and to upload.

        Args:
            pid: the root of the measured processes; None: the machine only.
            stop: ends the command, if a rule may.
        """
        destination = self._options.server.destination
        self.spool.add_session(str(self.id), str(self.run_id), destination)
        self._send_declaration()
        sources = [*machine_sources(), *self._own_sources(pid)]
        gpus = next((source for source in sources if isinstance(source, Gpus)), None)
        interval = self._options.interval_seconds
        loops = TrainingLoops(self.folder, self._timeline, self._taken_over, self._watch)
        self._sampler = Sampler(sources, loops, self._timeline, interval, self._seal, gpus)
        self._sampler.start()
        self._start_uploader(pid, stop)
        threading.Thread(target=self._detect, daemon=True).start()

    def _own_sources(self, pid: int | None) -> list[SeriesSource]:
        """Return the sources of the run's processes and GPUs, if there are any."""
        own: list[SeriesSource] = []
        follow: list[Callable[[int], None]] = []
        if pid is not None:
            with suppress(OSError):
                self._tree = ProcessTree(pid, self.folder, Stages(self._record, self._secrets))
                own.append(self._tree)
                follow.append(self._tree.follow)
        pids = self._tree.pids if self._tree else None
        try:
            gpus = Gpus(self._record, self._add_gpus, self._target.environment, pids)
            own.append(gpus)
            follow.append(gpus.follow)
        except OSError:
            # Here, because most machines have no GPU of AMD's either.
            from trimtab.sources.amd import AmdGpus

            with suppress(OSError):
                own.append(AmdGpus(self._record, self._add_gpus, self._target.environment))
        return [JoinedProcesses(self.folder, follow), *own] if self._tree else own

    def _start_uploader(self, pid: int | None, stop: Stop | None) -> None:
        if not self._options.server.url:
            return
        profile = None if pid is None else lambda asked: profiles.request(self.folder, asked)
        actions = Actions(self._set_interval, profile, stop if self._options.allow_stop else None)
        on_directives = Directives(actions, self._record).handle
        server, own = self._options.server, str(self.id)
        self.uploader = Uploader(self.spool, server, own, self._say, on_directives)
        self.uploader.start()

    def finish(
        self, ending: CommandEnding, at_most_seconds: float, stderr: KeptStderr | None = None
    ) -> None:
        """Take the last sample, seal, and upload what is left, within the time given."""
        until = time.monotonic() + at_most_seconds
        wait_for_others(self.folder, min(_OTHERS_SECONDS, at_most_seconds / 2))
        ending = _of_all(ending, self.folder)
        if self._tree and ending.cpu_seconds is not None:
            self._tree.note_root_end(ending.cpu_seconds, ending.run_delay_seconds)
        facts: dict[str, Any] = {"state": ending.state, "exit_code": ending.exit_code}
        facts |= self._failure.describe_ending(ending, self._tree)
        for number, line in enumerate(stderr.finish(self._secrets) if stderr else ()):
            self._record("stderr", {"number": number, "text": line})
        if ending.rule:
            facts["rule"] = ending.rule
        if self._sampler:
            exit_facts: dict[str, Any] = {"exit_code": ending.exit_code}
            events = [("process_exit", exit_facts), ("session_end", facts)]
            self._sampler.finish(events, _LAST_SAMPLE_SECONDS)
            if self._sampler.problem:
                self._say(f"a sample was lost: {self._sampler.problem}")
        if self._collector.is_alive():
            self._collector.join(max(0.1, until - time.monotonic()))
        if self.uploader:
            self.uploader.flush(max(0.1, until - time.monotonic()))
        self.spool.release(str(self.id))
        self.clean_up()

    def clean_up(self) -> None:
        """Delete the folder, unless another command of the run still uses it."""
        if not living_processes(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def job(self) -> str:
        return self._declaration.job

    @property
    def page(self) -> str:
        """The URL of the run's page; empty if no service is set."""
        return self._options.server.page(self.run_id)

    @property
    def uploaded(self) -> int:
        """Return how many segments of this process the service accepted."""
        return self.uploader.taken if self.uploader else 0

    @property
    def waiting(self) -> int:
        """Return how many uploads of this session the service hasn't accepted."""
        return self.spool.contents([str(self.id)]).unsent

    # Called on the sampler's thread

    def _seal(self, draft: SegmentDraft, loops: LoopRecords, ended_ns: int) -> None:
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        is_last = any(event.kind == "session_end" for event in draft.events)
        own = [event for event in self._own_events if is_last or event[0] <= ended_ns]
        self._own_events = self._own_events[len(own) :]
        own_events = [
            Event(max(0, at_ns - draft.start_ns) // 1_000_000, kind, data)
            for at_ns, kind, data in own
        ]
        events = [*loops.events, *own_events, *draft.events]
        if self._watch:
            self._watch.note_segment(draft.blocks(), events, draft.start_ns // 1_000_000)
        for event in events:
            if event.kind == "session_end":
                event.data["final_seq"] = seq
                if self._watch:
                    event.data["warmup_steps"] = self._watch.warmup_steps
        segment = Segment(
            run_id=self.run_id,
            job=self._declaration.job,
            attempt=self._declaration.attempt,
            machine_id=self._declaration.node.machine_id,
            clock=self._clock,
            seq=seq,
            start_ms=draft.start_ns // 1_000_000,
            duration_ms=(ended_ns - draft.start_ns) // 1_000_000,
            resolution_ms=draft.resolution_ms,
            blocks=draft.blocks(),
            steps=loops.steps,
            step_summaries=loops.summaries,
            events=events,
        )
        self.spool.add(str(self.id), seq, encode_segment(segment))
        self._collect_from_training()
        if self.uploader:
            self.uploader.wake()

    def _collect_from_training(self) -> None:
        """Collect new parameters of the script, and finished profiles."""
        if news := script_parameters(self._script_parameters.read_changes(), self._secrets):
            self._declaration.parameters |= news
            self._send_declaration()
        if profiles.any_ready(self.folder) and not self._collector.is_alive():
            self._collector = threading.Thread(target=self._collect, daemon=True)
            self._collector.start()

    def _collect(self) -> None:
        """Collect files in a thread of their own: hashing and moving a large file takes longer than
        a tick.
        """
        for problem in profiles.collect(self.folder, self.spool, str(self.id)):
            self._say(problem)
        if self.uploader:
            self.uploader.wake()

    # Called from any thread

    def _record(self, kind: str, data: dict[str, Any]) -> None:
        self._own_events.append((self._timeline.now_ns(), kind, data))

    def _set_interval(self, seconds: float) -> None:
        if self._sampler:
            self._sampler.set_interval(seconds)

    def _send_declaration(self) -> None:
        with self._declaring:
            self.spool.declare(str(self.id), encode_declaration(self._declaration))
        if self.uploader:
            self.uploader.wake()

    def _add_gpus(self, gpus: list[Gpu]) -> None:
        self._declaration.node.gpus = gpus
        self._send_declaration()

    def _detect(self) -> None:
        """Find out what may take seconds, and declare it as soon as it is known."""
        with suppress(Exception):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
            if add_git_state(self._declaration, self._target.folder):
                self._send_declaration()
        with suppress(Exception):
            if self._options.ask_metadata and (instance := platforms.detect(os.environ)):
                platforms.fill_node_facts(self._declaration.node, instance, self._options.node)
                self._send_declaration()


def _of_all(ending: CommandEnding, folder: Path) -> CommandEnding:
    """Return the ending of all commands: a run of several on this node has failed if one of them
    has.
    """
    worst = worst_exit_code(folder)
    return ending if ending.exit_code != 0 or not worst else replace(ending, exit_code=worst)


def _sweep_folders_of_killed_agents() -> None:
    """Delete the folders of killed agents. Trainings that outlive their agent keep their rings
    mapped; only the names are deleted.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*-*"):
        pid = folder.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists() and not living_processes(folder):
            shutil.rmtree(folder, ignore_errors=True)
