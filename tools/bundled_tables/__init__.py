"""Builds the bundled tables of prices and hardware."""
