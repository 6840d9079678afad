"""Mutation testing: changes the code in small ways and lists the changes that no test notices."""
