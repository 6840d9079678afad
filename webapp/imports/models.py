"""Imports: the conversion of an uploaded folder."""

from __future__ import annotations

from django.db import models

from webapp.background.models import Claimable
from webapp.runs.models import Artefact

WHOLE, PART, PROFILE = "import", "import-part", "profile"
"""Kinds of artefacts: the description of an upload (from older agents: the archive), a part of its
archive, and a trace of some steps of a run."""


class Import(Claimable):
    """The conversion of one upload. Its run is the artefact's."""

    artefact = models.OneToOneField(Artefact, models.CASCADE, related_name="conversion")
    source = models.CharField(max_length=1200, blank=True)
    """The S3 address of the files, which only owners see; empty if they were uploaded."""
    stage = models.CharField(max_length=120, blank=True)
    """The worker's current stage, for people; empty if there is none."""
    result = models.JSONField(default=dict, blank=True)
    """The counts of what was imported and skipped, as `ImportResult.document` of
    `advisor.importers.conversion` has them. Of an import that failed: what was skipped until
    then."""
    operator_times = models.JSONField(null=True, blank=True)
    """The times of operators, as `ImportResult.times_document` has them: up to 1.2 MB that only
    reports read. None if nothing was converted, or by a version that didn't keep it."""

    def __str__(self) -> str:
        return f"import of {self.artefact}"
