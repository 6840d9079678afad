"""The rule engine: pure functions on NumPy and pandas that judge a training run."""
