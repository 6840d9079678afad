"""Two runs compared: what changed, what it cost, and where the difference came from."""
