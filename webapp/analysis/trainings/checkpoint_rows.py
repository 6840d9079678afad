"""Stores which checkpoint files a run saved, and which it had loaded before its first step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet

from rules.checkpoints import CheckpointFile as Told
from webapp.analysis.models import CheckpointFile
from webapp.analysis.outcome import Outcome
from webapp.analysis.trainings.times import unix_us
from webapp.database import documents
from webapp.database.prepared import Models, Slot
from webapp.runs.models import Run

MOST_SAVED, MOST_LOADED = 400, 40
"""The newest saved ones: older ones are rarely kept. The first loaded ones."""
Times = dict[str, int]


@dataclass(frozen=True)
class Files:
    """Files by their fingerprints, with a time in microseconds since 1970."""

    saved: Times
    loaded: Times


def save(run: Run, outcome: Outcome) -> None:
    """Write the run's checkpoint files. Without samples, the known files are kept."""
    measured, since = outcome.measured, outcome.run.started_at
    if measured is None or measured.steps is None or since is None:
        return
    files = _files(measured.checkpoint_files, unix_us(since))
    known = {(row.is_loaded, row.fingerprint): row for row in _known(run=run.pk)}
    wanted = {(False, name): at for name, at in files.saved.items()} | {
        (True, name): at for name, at in files.loaded.items()
    }
    gone = [row.pk for place, row in known.items() if place not in wanted]
    if gone:
        CheckpointFile.objects.filter(pk__in=gone).delete()
    changed = [
        CheckpointFile(run=run, is_loaded=is_loaded, fingerprint=name, at_us=at)
        for (is_loaded, name), at in wanted.items()
        if (is_loaded, name) not in known or known[is_loaded, name].at_us != at
    ]
    documents.save(changed, unique=("run", "is_loaded", "fingerprint"))


@Models
def _known() -> QuerySet[CheckpointFile]:
    return CheckpointFile.objects.filter(run=Slot("run", Run._meta.pk))


def _files(told: Iterable[Told], began_us: int) -> Files:
    saved: Times = {}
    loaded: Times = {}
    for each in sorted(told, key=lambda file: file.at_seconds):
        at = began_us + round(each.at_seconds * 1e6)
        if each.is_loaded:
            loaded.setdefault(each.fingerprint, at)
        else:
            saved[each.fingerprint] = at
    newest = sorted(saved.items(), key=lambda pair: pair[1])[-MOST_SAVED:]
    return Files(dict(newest), dict(list(loaded.items())[:MOST_LOADED]))
