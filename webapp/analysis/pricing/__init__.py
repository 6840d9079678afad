"""Machine uses that the advisor prices, and the runs that share a machine."""
