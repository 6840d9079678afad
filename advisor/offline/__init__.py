"""A run's folder analysed without a service."""
