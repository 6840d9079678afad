"""One file, one rule. A module here that has a `RULE` is registered by being here."""
