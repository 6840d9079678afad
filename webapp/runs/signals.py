"""What others may want to know of runs. Sent in the transaction of the change."""

from django.dispatch import Signal

history_changed = Signal()
"""Which runs a job has or compares has changed; `job`, and `since`: when the first run began that
this may matter to."""
machine_corrected = Signal()
"""A person said what a run really ran on; `run` is given."""
runs_moved = Signal()
"""Two jobs became one, or were parted: runs of `source` are runs of `target` now; `runs`: which, or
None for all."""
runs_came_or_went = Signal()
"""Runs were deleted or restored; `runs` are given."""
