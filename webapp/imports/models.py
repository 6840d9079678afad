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
    """Where in S3 the files are, which only owners see; empty: they were uploaded."""
    stage = models.CharField(max_length=120, blank=True)
    """What a worker is doing, for people; empty: nothing."""
    result = models.JSONField(default=dict, blank=True)
    """What was taken and skipped, as `advisor.importers.conversion.Imported` has it."""
    operator_times = models.JSONField(null=True, blank=True)
    """When operators ran, as `Imported.times_document` has it: up to 1.2 MB that only reports read.
    None: not converted, or by a version that didn't keep it."""

    def __str__(self) -> str:
        return f"import of {self.artefact}"
