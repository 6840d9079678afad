"""Simulated runs that go through the public API, so that no page of a new service is empty."""
