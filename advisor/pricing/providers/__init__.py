"""What is particular to each provider of machines, a module or package each."""
