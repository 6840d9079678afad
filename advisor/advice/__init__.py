"""The kinds of recommendation, one module each."""
