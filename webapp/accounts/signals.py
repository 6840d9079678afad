"""Signals about accounts for packages above this one."""

from django.dispatch import Signal

password_reset_asked = Signal()
"""A link to a new password is requested for `email`, which may have no account."""
