"""One archive of all that a service keeps, made while it runs, and a service made from it.

`archive` is the format, `rows` takes and puts back the database, `making` and `restoring` are the
two commands.
"""
