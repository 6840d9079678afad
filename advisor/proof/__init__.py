"""Finds out whether recommendations were followed, and what that saved, measured on later runs."""
