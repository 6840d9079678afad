"""A folder for PYTHONPATH. Don't import from it by name."""
