"""Callbacks for training frameworks, one module each, imported on demand."""
