"""Successive runs of one job: does the newest cost more than expected, and since when?"""
