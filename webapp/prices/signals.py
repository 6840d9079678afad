"""What others may want to know of prices."""

from django.dispatch import Signal

rates_changed = Signal()
"""A workspace got an own rate or a discount; `workspace` is given. Sent in the transaction."""
