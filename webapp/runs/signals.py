"""Signals about changes of runs. Sent in the transaction of the change."""

from django.dispatch import Signal

history_changed = Signal()
"""A job's runs or compared runs have changed. Arguments: `job`, and `since`, the start of the first
affected run."""
metrics_set = Signal()
"""A person set how the metrics of a job are judged. Argument: `job`, locked."""
machine_corrected = Signal()
"""A person corrected a run's machine. Argument: `run`."""
runs_moved = Signal()
"""Jobs were merged, or a merge was undone. `runs` (None: all) of `source` now belong to
`target`."""
runs_came_or_went = Signal()
"""Runs were deleted or restored. Argument: `runs`."""
