"""The decision library: storage of samples, prices, cost, comparison, sizing and advice.

Imports `rules` and the wire format, but not Django.
"""
