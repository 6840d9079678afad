"""The decision library: storage of samples, prices, cost, comparison, sizing and advice.

Knows `rules` and the wire; knows nothing of Django.
"""
