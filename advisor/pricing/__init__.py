"""Prices and hardware of machines."""
