"""The analysis of one run: of all its samples, or a look at its last minutes while it runs."""
