"""Converts what other tools recorded, and shows what came of it."""
