"""Callbacks for training frameworks, one module each. None is imported until it is asked for."""
