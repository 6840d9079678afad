"""What starts and holds the service: its environment, its processes, what they are given.

It imports no app. `bootstrap.py`, `supervise.py` and what that imports use the standard library
only; the rest needs Django's settings.
"""
