"""Signals about changes of prices."""

from django.dispatch import Signal

rates_changed = Signal()
"""A workspace got an own rate or a discount. Argument: `workspace`. Sent in the transaction."""
