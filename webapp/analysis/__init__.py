"""Analyses of runs, and what follows from them; each package holds one part of it.

`queue` says which runs are due, `judging` analyses one of them to an `outcome`, `results` writes
it, and `selectors` read what was written.
"""
