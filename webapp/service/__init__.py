"""What starts and holds the service: its environment, its processes, what they are given.

It imports no app. `bootstrap.py` and `supervise.py` are run by their path and use the standard
library only; the rest needs Django's settings.
"""
