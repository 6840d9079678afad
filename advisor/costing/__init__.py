"""The cost of a run: counted, split by day, phase and month, projected, and held to a budget."""
