"""Successive runs of a job: which are compared, the verdicts on them, and regressions."""
