"""Reads what other tools recorded: a folder or file in, stored samples, steps and facts out."""
