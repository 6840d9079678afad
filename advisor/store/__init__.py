"""Samples, steps and events: hot segments as uploaded, compacted Parquet, and reading both.

`index` says what is stored, `objects` holds the bytes, `reading` merges segments and chunks into
`NodeData`; `series` and `frames` are the two views on it, `compaction` the way from the one to the
other.
"""
