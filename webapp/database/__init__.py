"""What rows of every app need: the column type for money, and upkeep of the database."""
