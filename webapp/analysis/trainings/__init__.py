"""Trainings: which run continues which one, and which steps were done again."""
