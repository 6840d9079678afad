"""A folder for PYTHONPATH; nothing in it is to be imported by name."""
