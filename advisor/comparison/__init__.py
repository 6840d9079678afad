"""Compares two runs: the changes, the costs, and the causes of the difference."""
