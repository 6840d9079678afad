"""Converts what other tools recorded, and shows the result."""
