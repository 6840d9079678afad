"""Prices and machines as AWS itself tells them."""
