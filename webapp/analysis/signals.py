"""Signals about results of analyses. Sent in the transaction of the change."""

from django.dispatch import Signal

runs_judged = Signal()
"""The runs of a job were judged again as successive runs, because what is compared has changed.
Argument: `job`, which is locked."""
