"""Simulated runs that go through the public door, so that no page of a new service is empty."""
