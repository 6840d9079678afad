"""Building blocks for the rows of every app: the column type for money, and upkeep of the
database.
"""
