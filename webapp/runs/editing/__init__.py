"""Edits, merges and deletions of runs and jobs by people, and how to undo them."""
