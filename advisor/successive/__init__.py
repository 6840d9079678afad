"""Successive runs of one job: is the newest dearer than it should be, and since when?"""
