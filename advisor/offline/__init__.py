"""Analyses a run's folder without a service."""
