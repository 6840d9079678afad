"""Signals about the processes of the service."""

from django.dispatch import Signal

web_starts = Signal()
"""The web server has loaded everything and is about to listen."""
