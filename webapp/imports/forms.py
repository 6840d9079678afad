"""The form that owners fill in to import from S3."""

from __future__ import annotations

from django import forms
from trimtab.wire import LIMITS


class SourceForm(forms.Form):
    """Form of an S3 address. `from_s3.queue_import`, which knows what the workspace may read,
    checks it further.
    """

    source = forms.CharField(label="Address", max_length=1200, initial="s3://")
    job = forms.CharField(
        label="Job (empty: as the training job is called)",
        max_length=LIMITS.name_chars,
        required=False,
    )
