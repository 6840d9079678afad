"""Which machines could hold a run, how long it would take there, and for how much."""
