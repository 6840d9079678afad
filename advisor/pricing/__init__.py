"""Prices and hardware: what an hour of a machine costs, and what it has."""
