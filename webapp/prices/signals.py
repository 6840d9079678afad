"""Signals about changes of prices."""

from django.dispatch import Signal

rates_changed = Signal()
"""A workspace got an own rate or a discount. Argument: `workspace`. Sent in the transaction."""
prices_ended = Signal()
"""Price rows that costs may refer to have ended, maybe in the past. Argument: `rows`. Sent in the
transaction."""
