"""Starts and maintains the service: its environment, its processes, and their settings.

It imports no app. `bootstrap.py`, `supervise.py` and what that imports use the standard library
only; the rest needs Django's settings.
"""
