"""The rows that the outcome of an analysis becomes."""
