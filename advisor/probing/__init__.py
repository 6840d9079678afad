"""The measured speed of a training loop where it ran, and its worth as evidence for its job."""
