"""The cost of a run: calculated, split by day, phase and month, projected, and compared with a
budget."""
