"""The documentation of `docs/`, served by the service itself."""
