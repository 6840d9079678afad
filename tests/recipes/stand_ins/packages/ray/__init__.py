"""A stand-in for Ray whose workers are children of a daemon, not of the driver."""
