"""Analyses, counts and prices runs again whose results no longer hold."""
