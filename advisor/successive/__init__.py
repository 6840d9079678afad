"""Successive runs of one job: whether the newest costs more than expected, and since when."""
