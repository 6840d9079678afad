"""One rule per file. Each module here with a `RULE` is registered automatically."""
