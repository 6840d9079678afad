"""Simulated runs, uploaded through the public API, so that the pages of a new service aren't
empty."""
