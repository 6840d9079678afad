"""How fast a training loop was where it ran, and whether that is evidence for its job."""
