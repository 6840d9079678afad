"""Builds the declaration of a run and its node, before the first sample."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from trimtab import __version__, git, identity, requeue
from trimtab.hardware import node_facts
from trimtab.options import Options
from trimtab.platforms import slurm
from trimtab.redaction import redact_command, secrets_of
from trimtab.wire import LIMITS, Declaration

_MOST_WORDS = 500


@dataclass(frozen=True)
class MeasurementSubject:
    """Subject of a measurement: a command, a running process, or (without words) the machine."""

    words: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: Path = field(default_factory=identity.working_folder)
    """The working folder of the command."""

    def secrets(self, options: Options) -> list[str]:
        """Return the secrets, which must not be written anywhere."""
        known = [options.server.token, *secrets_of(self.environment), *secrets_of(os.environ)]
        return [secret for secret in known if secret]


def build_declaration(
    session: UUID, run: UUID, target: MeasurementSubject, options: Options
) -> Declaration:
    """Return the declaration, redacted and without the state of git (`add_git_state`)."""
    facts = node_facts(identity.machine_id(target.environment))
    slurm.limit(facts, target.environment)
    options.apply_to(facts)
    secrets = target.secrets(options)
    entry_point = (
        redact_command([identity.entry_point(target.words)], secrets)[0] if target.words else ""
    )
    workload = {"entry_point": identity.shorten_name(entry_point)} if entry_point else {}
    return Declaration(
        run_id=run,
        job=options.job or _job_name(target, secrets),
        attempt=identity.attempt(target.environment),
        session_id=session,
        node=facts,
        owner=options.owner,
        tags={**slurm.tags(target.environment), **options.tags},
        parameters=dict(options.parameters),
        command=_command(target.words, secrets),
        agent_version=__version__,
        workload={**workload, **options.workload},
        allow_stop=options.allow_stop,
        probe=options.probe,
        training=options.training,
        requeue=requeue.requeue_id(target.environment),
    )


def add_git_state(declaration: Declaration, place: Path) -> bool:
    """Add the state of git, which takes seconds in a large repository. Returns False if there is no
    repository.
    """
    repository = git.repository(place)
    if repository is None:
        return False
    state = git.state(repository.folder)
    declaration.git_commit, declaration.git_branch = state.commit, state.branch
    declaration.git_dirty = state.dirty
    return True


def _command(words: Sequence[str], secrets: Sequence[str]) -> list[str]:
    """Return the command, cut to what the service keeps, before and after redaction: half a secret
    isn't redacted.
    """
    looked_at = [word[: 4 * LIMITS.text_chars] for word in words[:_MOST_WORDS]]
    return [word[: LIMITS.text_chars] for word in redact_command(looked_at, secrets)]


def _job_name(target: MeasurementSubject, secrets: list[str]) -> str:
    if not target.words:
        return identity.shorten_name(f"machine/{os.uname().nodename}")
    name = identity.job_name(target.words, git.repository(target.folder), target.folder)
    return redact_command([name], secrets)[0]
